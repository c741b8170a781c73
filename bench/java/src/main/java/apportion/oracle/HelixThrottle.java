package apportion.oracle;

import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.BiConsumer;
import org.apache.helix.api.config.StateTransitionThrottleConfig;
import org.apache.helix.controller.pipeline.AbstractBaseStage;
import org.apache.helix.controller.stages.AttributeName;
import org.apache.helix.controller.stages.BestPossibleStateOutput;
import org.apache.helix.controller.stages.ClusterEvent;
import org.apache.helix.controller.stages.ClusterEventType;
import org.apache.helix.controller.stages.CurrentStateOutput;
import org.apache.helix.controller.stages.IntermediateStateCalcStage;
import org.apache.helix.controller.stages.MessageGenerationPhase;
import org.apache.helix.controller.stages.MessageOutput;
import org.apache.helix.controller.stages.MessageSelectionStage;
import org.apache.helix.model.ClusterConfig;
import org.apache.helix.model.IdealState;
import org.apache.helix.model.Message;
import org.apache.helix.model.Partition;
import org.apache.helix.model.Resource;

/** Three stages of Helix's controller: what is to change, what of it may change, what limits leave of that. */
final class HelixThrottle implements Case {
  private final JsonNode given;
  private final Map<String, Resource> resources = new LinkedHashMap<>();
  private final CurrentStateOutput current = new CurrentStateOutput();
  private final BestPossibleStateOutput best = new BestPossibleStateOutput();
  private final HelixCluster cluster;

  HelixThrottle(JsonNode given) {
    this.given = given;
    cluster =
        new HelixCluster(
            HelixCluster.texts(given.get("nodes")),
            HelixCluster.texts(given.get("live")),
            HelixCluster.texts(given.get("disabled")));
    limit(cluster.config);
    given.get("resources").forEach(this::fill);
  }

  private void limit(ClusterConfig config) {
    List<StateTransitionThrottleConfig> limits = new ArrayList<>();
    for (JsonNode each : given.get("limits")) {
      limits.add(
          new StateTransitionThrottleConfig(
              StateTransitionThrottleConfig.RebalanceType.valueOf(each.get("kind").asText()),
              StateTransitionThrottleConfig.ThrottleScope.valueOf(each.get("scope").asText()),
              each.get("most").asLong()));
    }
    config.setStateTransitionThrottleConfigs(limits);
    if (!given.get("most_errors").isNull()) {
      config.setErrorOrRecoveryPartitionThresholdForLoadBalance(given.get("most_errors").asInt());
    }
  }

  private void fill(JsonNode each) {
    String name = each.get("resource").asText();
    Resource resource = new Resource(name);
    resource.setStateModelDefRef(each.get("model").asText());
    IdealState ideal = cluster.resource(name, each.get("model").asText(), each.get("replicas").asInt());
    if (!each.get("least").isNull()) {
      ideal.setMinActiveReplicas(each.get("least").asInt());
    }
    best.setPreferenceLists(
        name, Main.JSON.convertValue(each.get("lists"), new TypeReference<Map<String, List<String>>>() {}));
    byPartition(
        each.get("target"),
        (partition, states) -> {
          resource.addPartition(partition.getPartitionName());
          best.setState(name, partition, HelixCluster.textByName(states));
        });
    byPartition(
        each.get("current"),
        (partition, states) ->
            HelixCluster.textByName(states)
                .forEach((node, state) -> current.setCurrentState(name, partition, node, state)));
    byPartition(each.get("disabled"), (partition, nodes) -> switchOff(name, partition, HelixCluster.texts(nodes)));
    for (JsonNode change : each.get("under_way")) {
      String node = change.get("node").asText();
      Message message = HelixCluster.message(node, change.get("source").asText(), change.get("target").asText());
      current.setPendingMessage(name, new Partition(change.get("partition").asText()), node, message);
    }
    resources.put(name, resource);
  }

  private void switchOff(String resource, Partition partition, List<String> nodes) {
    for (String node : nodes) {
      cluster.nodes.get(node).setInstanceEnabledForPartition(resource, partition.getPartitionName(), false);
    }
  }

  private static void byPartition(JsonNode given, BiConsumer<Partition, JsonNode> then) {
    given.fields().forEachRemaining(entry -> then.accept(new Partition(entry.getKey()), entry.getValue()));
  }

  private MessageOutput computed() {
    ClusterEvent event = new ClusterEvent(ClusterEventType.Unknown);
    event.addAttribute(AttributeName.helixmanager.name(), HelixCluster.manager());
    event.addAttribute(AttributeName.ControllerDataProvider.name(), cluster.cache());
    event.addAttribute(AttributeName.RESOURCES.name(), resources);
    event.addAttribute(AttributeName.RESOURCES_TO_REBALANCE.name(), resources);
    event.addAttribute(AttributeName.CURRENT_STATE.name(), current);
    event.addAttribute(AttributeName.BEST_POSSIBLE_STATE.name(), best);
    try {
      for (AbstractBaseStage stage :
          List.of(new MessageGenerationPhase(), new MessageSelectionStage(), new IntermediateStateCalcStage())) {
        stage.process(event);
      }
    } catch (RuntimeException error) {
      throw error;
    } catch (Exception error) {
      throw new IllegalStateException(error);
    }
    return event.getAttribute(AttributeName.MESSAGES_SELECTED.name());
  }

  @Override
  public void call() {
    computed();
  }

  @Override
  public JsonNode answer() {
    List<List<String>> found = new ArrayList<>();
    MessageOutput left = computed();
    for (String name : resources.keySet()) {
      for (Partition partition : resources.get(name).getPartitions()) {
        for (Message message : left.getMessages(name, partition)) {
          found.add(
              List.of(
                  name,
                  partition.getPartitionName(),
                  message.getTgtName(),
                  message.getFromState(),
                  message.getToState()));
        }
      }
    }
    return Main.JSON.valueToTree(found);
  }
}

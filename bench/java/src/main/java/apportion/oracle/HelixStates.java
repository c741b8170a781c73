package apportion.oracle;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.helix.controller.dataproviders.ResourceControllerDataProvider;
import org.apache.helix.controller.rebalancer.DelayedAutoRebalancer;
import org.apache.helix.controller.rebalancer.constraint.MonitoredAbnormalResolver;
import org.apache.helix.controller.stages.CurrentStateOutput;
import org.apache.helix.model.IdealState;
import org.apache.helix.model.Partition;

/** Helix's rebalancer, asked for the states of one partition by its preference list. */
final class HelixStates implements Case {
  private static final String RESOURCE = "resource";
  private static final Partition PARTITION = new Partition("0");

  private final List<String> listed;
  private final Set<String> live;
  private final Set<String> disabled;
  private final CurrentStateOutput current = new CurrentStateOutput();
  private final IdealState ideal;
  private final ResourceControllerDataProvider cache;

  HelixStates(JsonNode given) {
    listed = HelixCluster.texts(given.get("list"));
    live = new HashSet<>(HelixCluster.texts(given.get("live")));
    disabled = new HashSet<>(HelixCluster.texts(given.get("disabled")));
    HelixCluster cluster = new HelixCluster(HelixCluster.texts(given.get("nodes")), List.copyOf(live), List.of());
    if (given.get("zones").isObject()) {
      cluster.zones(HelixCluster.textByName(given.get("zones")));
    }
    ideal = cluster.resource(RESOURCE, given.get("model").asText(), listed.size());
    cache = cluster.cache();
    HelixCluster.textByName(given.get("current"))
        .forEach((node, state) -> current.setCurrentState(RESOURCE, PARTITION, node, state));
    for (String node : HelixCluster.texts(given.get("coming"))) {
      current.setPendingMessage(RESOURCE, PARTITION, node, HelixCluster.message(node, "OFFLINE", "any"));
    }
  }

  private Map<String, String> computed() {
    return new Opened().states();
  }

  /** What answers is protected. */
  private final class Opened extends DelayedAutoRebalancer {
    Map<String, String> states() {
      return computeBestPossibleStateForPartition(
          live,
          cache.getStateModelDef(ideal.getStateModelDefRef()),
          listed,
          current,
          disabled,
          ideal,
          cache.getClusterConfig(),
          PARTITION,
          MonitoredAbnormalResolver.DUMMY_STATE_RESOLVER,
          cache);
    }
  }

  @Override
  public void call() {
    computed();
  }

  @Override
  public JsonNode answer() {
    return Main.JSON.valueToTree(new TreeMap<>(computed()));
  }
}

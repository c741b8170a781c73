package apportion.oracle;

import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.helix.controller.dataproviders.ResourceControllerDataProvider;
import org.apache.helix.controller.rebalancer.strategy.AutoRebalanceStrategy;
import org.apache.helix.controller.rebalancer.strategy.CrushEdRebalanceStrategy;
import org.apache.helix.controller.rebalancer.strategy.CrushRebalanceStrategy;
import org.apache.helix.controller.rebalancer.strategy.MultiRoundCrushRebalanceStrategy;
import org.apache.helix.controller.rebalancer.strategy.RebalanceStrategy;
import org.apache.helix.model.ClusterConfig;
import org.apache.helix.model.IdealState;
import org.apache.helix.model.InstanceConfig;
import org.apache.helix.model.MasterSlaveSMD;

/** A strategy of Helix, asked for the preference lists of one resource; no ZooKeeper. */
final class HelixCase implements Case {
  private static final String CLUSTER = "cluster";

  private final String strategy;
  private final String resource;
  private final int most;
  private final List<String> partitions;
  private final List<String> nodes = new ArrayList<>();
  private final List<String> live;
  private final LinkedHashMap<String, Integer> states = new LinkedHashMap<>();
  private final Map<String, Map<String, String>> previous;
  private final ResourceControllerDataProvider cache = new ResourceControllerDataProvider(CLUSTER);

  HelixCase(JsonNode given) {
    strategy = given.get("strategy").asText();
    resource = given.get("resource").asText();
    most = given.path("most").asInt(Integer.MAX_VALUE);
    partitions = texts(given.get("partitions"));
    live = texts(given.get("live"));
    previous =
        Main.JSON.convertValue(
            given.path("previous").isObject() ? given.get("previous") : Main.JSON.createObjectNode(),
            new TypeReference<LinkedHashMap<String, Map<String, String>>>() {});
    int replicas = given.get("replicas").asInt();
    states.put("MASTER", 1);
    states.put("SLAVE", replicas - 1);
    fill(given.get("nodes"), replicas);
  }

  private void fill(JsonNode given, int replicas) {
    Map<String, InstanceConfig> configs = new HashMap<>();
    boolean isAware = false;
    for (JsonNode each : given) {
      InstanceConfig config = new InstanceConfig(each.get("id").asText());
      if (!each.path("zone").isMissingNode() && !each.get("zone").isNull()) {
        config.setZoneId(each.get("zone").asText());
        isAware = true;
      }
      if (!each.path("weight").isMissingNode() && !each.get("weight").isNull()) {
        // The setter refuses 0, which a cluster may hold all the same.
        config.getRecord().setIntField("INSTANCE_WEIGHT", each.get("weight").asInt());
      }
      nodes.add(config.getInstanceName());
      configs.put(config.getInstanceName(), config);
    }
    ClusterConfig cluster = new ClusterConfig(CLUSTER);
    cluster.setTopologyAwareEnabled(isAware);
    IdealState ideal = new IdealState(resource);
    ideal.setStateModelDefRef("MasterSlave");
    ideal.setReplicas(Integer.toString(replicas));
    ideal.setRebalanceMode(IdealState.RebalanceMode.FULL_AUTO);
    cache.setClusterConfig(cluster);
    cache.setInstanceConfigMap(configs);
    cache.setIdealStates(List.of(ideal));
    cache.setStateModelDefMap(Map.of("MasterSlave", MasterSlaveSMD.build()));
  }

  private static List<String> texts(JsonNode given) {
    List<String> found = new ArrayList<>();
    given.forEach(each -> found.add(each.asText()));
    return found;
  }

  private RebalanceStrategy<ResourceControllerDataProvider> made() {
    return switch (strategy) {
      case "CrushRebalanceStrategy" -> new CrushRebalanceStrategy();
      case "CrushEdRebalanceStrategy" -> new CrushEdRebalanceStrategy();
      case "MultiRoundCrushRebalanceStrategy" -> new MultiRoundCrushRebalanceStrategy();
      case "AutoRebalanceStrategy" -> new AutoRebalanceStrategy();
      default -> throw new IllegalArgumentException(strategy);
    };
  }

  /** Strategies keep state: each call has a new one, and lists of its own. */
  private Map<String, List<String>> computed() {
    RebalanceStrategy<ResourceControllerDataProvider> fresh = made();
    fresh.init(resource, new ArrayList<>(partitions), new LinkedHashMap<>(states), most);
    // As Helix's rebalancers do it, entry by entry: a copy of a map would have fewer buckets, and another order.
    Map<String, Map<String, String>> before = new HashMap<>();
    for (String partition : previous.isEmpty() ? List.<String>of() : partitions) {
      Map<String, String> held = new HashMap<>();
      previous.getOrDefault(partition, Map.of()).forEach(held::put);
      before.put(partition, held);
    }
    return fresh
        .computePartitionAssignment(new ArrayList<>(nodes), new ArrayList<>(live), before, cache)
        .getListFields();
  }

  @Override
  public void call() {
    computed();
  }

  @Override
  public JsonNode answer() {
    return Main.JSON.valueToTree(computed());
  }
}

package apportion.oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import org.apache.helix.controller.dataproviders.BaseControllerDataProvider;
import org.apache.helix.controller.dataproviders.ResourceControllerDataProvider;
import org.apache.helix.controller.rebalancer.DelayedAutoRebalancer;
import org.apache.helix.controller.rebalancer.util.DelayedRebalanceUtil;
import org.apache.helix.controller.rebalancer.util.RebalanceScheduler;
import org.apache.helix.controller.stages.CurrentStateOutput;
import org.apache.helix.model.IdealState;
import org.apache.helix.model.InstanceConfig;

/**
 * Helix's delayed rebalancer: who is active, when that changes next, and the lists.
 *
 * <p>Helix reads the clock: times of a case are moved so that its `now` is the time of the question. What ends at `now`
 * has ended, whichever millisecond is read; other times of a case are to be minutes away from it.
 */
final class HelixDelay implements Case {
  private static final String STRATEGIES = "org.apache.helix.controller.rebalancer.strategy.";

  private final JsonNode given;
  private final long moved;
  private final Map<String, Long> offline = new HashMap<>();
  private final IdealState ideal;
  private final ResourceControllerDataProvider cache;

  HelixDelay(JsonNode given) {
    this.given = given;
    moved = System.currentTimeMillis() - given.get("now").asLong();
    List<String> names = new ArrayList<>();
    given.get("nodes").forEach(each -> names.add(each.get("id").asText()));
    List<String> disabled = HelixCluster.texts(given.get("disabled"));
    HelixCluster cluster = new HelixCluster(names, HelixCluster.texts(given.get("live")), disabled);
    for (JsonNode each : given.get("nodes")) {
      fill(cluster.nodes.get(each.get("id").asText()), each);
    }
    cluster.config.setTopologyAwareEnabled(!given.get("nodes").get(0).get("zone").isNull());
    cluster.config.setRebalanceDelayTime(given.get("delay").asLong());
    cluster.config.setDelayRebalaceEnabled(true);
    if (!given.get("ended").isNull()) {
      cluster.config.setLastOnDemandRebalanceTimestamp(moved + given.get("ended").asLong());
    }
    ideal = cluster.resource(given.get("resource").asText(), "MasterSlave", given.get("replicas").asInt());
    ideal.setMinActiveReplicas(given.get("least").asInt());
    ideal.setRebalanceStrategy(STRATEGIES + given.get("by").asText());
    HelixCluster.texts(given.get("partitions"))
        .forEach(each -> ideal.getRecord().setListField(each, new ArrayList<>()));
    cache = cluster.cache();
    // A controller reads these from ZooKeeper alone.
    HelixHidden.write(BaseControllerDataProvider.class, "_instanceOfflineTimeMap", cache, offline);
  }

  private void fill(InstanceConfig node, JsonNode each) {
    if (!each.get("zone").isNull()) {
      node.setZoneId(each.get("zone").asText());
    }
    node.setWeight(each.get("weight").asInt());
    node.setDelayRebalanceEnabled(!each.get("exempt").asBoolean());
    if (!each.get("offline").isNull()) {
      offline.put(node.getInstanceName(), moved + each.get("offline").asLong());
    }
    node.getRecord().getSimpleFields().remove("HELIX_ENABLED_TIMESTAMP");
    if (!each.get("disabled").isNull()) {
      node.getRecord().setLongField("HELIX_ENABLED_TIMESTAMP", moved + each.get("disabled").asLong());
    }
  }

  /** Schedules the next rebalance too. */
  private Map<String, List<String>> lists() {
    DelayedAutoRebalancer rebalancer = new DelayedAutoRebalancer();
    return rebalancer
        .computeNewIdealState(ideal.getResourceName(), ideal, new CurrentStateOutput(), cache)
        .getRecord()
        .getListFields();
  }

  @Override
  public void call() {
    lists();
  }

  @Override
  public JsonNode answer() {
    ObjectNode said = Main.JSON.createObjectNode();
    said.set(
        "active",
        Main.JSON.valueToTree(
            new TreeSet<>(
                DelayedRebalanceUtil.getActiveNodes(
                    cache.getAssignableInstances(),
                    ideal,
                    cache.getEnabledLiveInstances(),
                    cache.getInstanceOfflineTimeMap(),
                    cache.getAssignableLiveInstances().keySet(),
                    cache.getAssignableInstanceConfigMap(),
                    DelayedRebalanceUtil.getRebalanceDelay(ideal, cache.getClusterConfig()),
                    cache.getClusterConfig()))));
    try {
      said.set("lists", Main.JSON.valueToTree(lists()));
    } catch (RuntimeException error) {
      // A strategy throws where nobody is live; who is active is known all the same.
      said.put("error", error.toString());
    }
    RebalanceScheduler scheduler =
        (RebalanceScheduler) HelixHidden.read(DelayedRebalanceUtil.class, "REBALANCE_SCHEDULER", null);
    long next = scheduler.removeScheduledRebalance(ideal.getResourceName());
    said.set("next", next < 0 ? null : Main.JSON.valueToTree(next - moved));
    return said;
  }
}

package apportion.oracle;

import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.JsonNode;
import java.lang.reflect.Method;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.helix.controller.rebalancer.DelayedAutoRebalancer;
import org.apache.helix.model.IdealState;
import org.apache.helix.zookeeper.datamodel.ZNRecord;

/** Helix's delayed rebalancer, asked which of two lists of each partition is kept: any lists, also impossible ones. */
final class HelixKept implements Case {
  private final ZNRecord onLive;
  private final ZNRecord onActive;
  private final Set<String> live;
  private final int replicas;
  private final int least;

  HelixKept(JsonNode given) {
    onLive = lists(given.get("on_live"));
    onActive = lists(given.get("on_active"));
    live = new HashSet<>(HelixCluster.texts(given.get("live")));
    replicas = given.get("replicas").asInt();
    least = given.get("least").asInt();
  }

  private static ZNRecord lists(JsonNode given) {
    ZNRecord record = new ZNRecord("resource");
    record.setListFields(Main.JSON.convertValue(given, new TypeReference<Map<String, List<String>>>() {}));
    return record;
  }

  private Map<String, List<String>> computed() {
    try {
      Method method =
          DelayedAutoRebalancer.class.getDeclaredMethod(
              "getFinalDelayedMapping",
              IdealState.class,
              ZNRecord.class,
              ZNRecord.class,
              Set.class,
              int.class,
              int.class);
      method.setAccessible(true);
      IdealState ideal = new IdealState("resource");
      Object kept = method.invoke(new DelayedAutoRebalancer(), ideal, onLive, onActive, live, replicas, least);
      return ((ZNRecord) kept).getListFields();
    } catch (ReflectiveOperationException error) {
      throw new IllegalStateException(error);
    }
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

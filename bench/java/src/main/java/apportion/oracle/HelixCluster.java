package apportion.oracle;

import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.JsonNode;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import org.apache.helix.HelixManager;
import org.apache.helix.controller.dataproviders.ResourceControllerDataProvider;
import org.apache.helix.model.BuiltInStateModelDefinitions;
import org.apache.helix.model.ClusterConfig;
import org.apache.helix.model.IdealState;
import org.apache.helix.model.InstanceConfig;
import org.apache.helix.model.LiveInstance;
import org.apache.helix.model.Message;
import org.apache.helix.model.StateModelDefinition;

/** What a controller of Helix knows of its cluster, filled by hand; no ZooKeeper. */
final class HelixCluster {
  static final String NAME = "cluster";

  final ClusterConfig config = new ClusterConfig(NAME);
  final Map<String, InstanceConfig> nodes = new LinkedHashMap<>();
  final List<LiveInstance> live = new ArrayList<>();
  final List<IdealState> ideals = new ArrayList<>();

  /** Add nodes, of which the named ones are live, and the named ones disabled. */
  HelixCluster(Iterable<String> names, List<String> live, List<String> disabled) {
    for (String name : names) {
      InstanceConfig node = new InstanceConfig(name);
      node.setInstanceEnabled(!disabled.contains(name));
      nodes.put(name, node);
      if (live.contains(name)) {
        LiveInstance up = new LiveInstance(name);
        up.setSessionId("session of " + name);
        this.live.add(up);
      }
    }
  }

  /** Say the zones: a topology of two levels, with zones as the fault domains. */
  void zones(Map<String, String> zones) {
    config.setTopologyAwareEnabled(true);
    config.setTopology("/zone/instance");
    config.setFaultZoneType("zone");
    zones.forEach((node, zone) -> nodes.get(node).setDomain("zone=" + zone + ",instance=" + node));
  }

  /** Add a resource, rebalanced by Helix alone. */
  IdealState resource(String name, String model, int replicas) {
    IdealState ideal = new IdealState(name);
    ideal.setStateModelDefRef(model);
    ideal.setReplicas(Integer.toString(replicas));
    ideal.setRebalanceMode(IdealState.RebalanceMode.FULL_AUTO);
    ideals.add(ideal);
    return ideal;
  }

  /** Return it all as stages and rebalancers read it. */
  ResourceControllerDataProvider cache() {
    ResourceControllerDataProvider cache = new ResourceControllerDataProvider(NAME);
    cache.setClusterConfig(config);
    cache.setInstanceConfigMap(new HashMap<>(nodes));
    cache.setLiveInstances(live);
    cache.setIdealStates(ideals);
    Map<String, StateModelDefinition> models = new HashMap<>();
    Arrays.stream(BuiltInStateModelDefinitions.values())
        .forEach(each -> models.put(each.name(), each.getStateModelDefinition()));
    cache.setStateModelDefMap(models);
    cache.setAsyncTasksThreadPool(idle(ExecutorService.class));
    return cache;
  }

  /** Return a message under way, from a state to the next. */
  static Message message(String node, String source, String target) {
    Message message = new Message(Message.MessageType.STATE_TRANSITION, node + source + target);
    message.setTgtName(node);
    message.setFromState(source);
    message.setToState(target);
    return message;
  }

  static HelixManager manager() {
    return idle(HelixManager.class);
  }

  /** Return what does nothing, and has a name for whoever asks for a text. */
  private static <T> T idle(Class<T> kind) {
    Object made =
        Proxy.newProxyInstance(
            kind.getClassLoader(),
            new Class<?>[] {kind},
            (proxy, method, arguments) -> method.getReturnType() == String.class ? "controller" : null);
    return kind.cast(made);
  }

  static List<String> texts(JsonNode given) {
    List<String> found = new ArrayList<>();
    given.forEach(each -> found.add(each.asText()));
    return found;
  }

  static Map<String, String> textByName(JsonNode given) {
    return Main.JSON.convertValue(given, new TypeReference<LinkedHashMap<String, String>>() {});
  }
}

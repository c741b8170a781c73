package apportion.oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import org.apache.helix.model.BuiltInStateModelDefinitions;
import org.apache.helix.model.StateModelDefinition;

/** A state model that Helix builds in: its states, the way between them, how many of each. */
final class HelixModel implements Case {
  private final StateModelDefinition model;
  private final int replicas;

  HelixModel(JsonNode given) {
    model = BuiltInStateModelDefinitions.valueOf(given.get("model").asText()).getStateModelDefinition();
    replicas = given.get("replicas").asInt();
  }

  private List<String> states() {
    List<String> states = new ArrayList<>(model.getStatePriorityMap().keySet());
    states.sort(Comparator.comparing(model.getStatePriorityMap()::get));
    return states;
  }

  @Override
  public void call() {
    answer();
  }

  @Override
  public JsonNode answer() {
    ObjectNode said = Main.JSON.createObjectNode();
    said.set("states", Main.JSON.valueToTree(states()));
    ObjectNode next = said.putObject("next");
    for (String source : states()) {
      ObjectNode from = next.putObject(source);
      states().forEach(target -> from.put(target, model.getNextStateForTransition(source, target)));
    }
    said.set("counts", Main.JSON.valueToTree(model.getStateCountMap(replicas, replicas)));
    said.set("before_top", Main.JSON.valueToTree(model.getSecondTopStates()));
    return said;
  }
}

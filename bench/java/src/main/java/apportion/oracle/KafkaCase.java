package apportion.oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/** An assignor of Kafka's Java client, asked as the leader of a group asks it; no broker. */
final class KafkaCase implements Case {
  private final String assignor;
  private final Cluster cluster;
  private final GroupSubscription group;
  private final ObjectNode userData = Main.JSON.createObjectNode();

  KafkaCase(JsonNode given) {
    assignor = given.get("assignor").asText();
    cluster = cluster(given);
    Map<String, Subscription> members = new HashMap<>();
    for (JsonNode each : given.get("members")) {
      members.put(each.get("id").asText(), subscription(each));
    }
    group = new GroupSubscription(members);
  }

  private static Cluster cluster(JsonNode given) {
    Map<String, Node> nodes = new HashMap<>();
    List<PartitionInfo> partitions = new ArrayList<>();
    Node[] plain = {new Node(0, "host", 9092)};
    given
        .get("topics")
        .fields()
        .forEachRemaining(
            topic -> {
              JsonNode racks = given.path("racks").path(topic.getKey());
              for (int number = 0; number < topic.getValue().asInt(); number++) {
                Node[] replicas = racks.isMissingNode() ? plain : replicas(racks.get(number), nodes);
                partitions.add(new PartitionInfo(topic.getKey(), number, null, replicas, replicas));
              }
            });
    List<Node> all = new ArrayList<>(nodes.values());
    all.add(plain[0]);
    return new Cluster("id", all, partitions, Set.of(), Set.of());
  }

  private static Node[] replicas(JsonNode racks, Map<String, Node> nodes) {
    Node[] found = new Node[racks.size()];
    for (int index = 0; index < found.length; index++) {
      String rack = racks.get(index).asText();
      found[index] = nodes.computeIfAbsent(rack, name -> new Node(nodes.size() + 1, "host", 9092, name));
    }
    return found;
  }

  private Subscription subscription(JsonNode member) {
    List<String> topics = new ArrayList<>();
    member.get("topics").forEach(topic -> topics.add(topic.asText()));
    List<TopicPartition> owned = new ArrayList<>();
    member.get("owned").forEach(each -> owned.add(new TopicPartition(each.get(0).asText(), each.get(1).asInt())));
    int generation = member.get("generation").asInt();
    Optional<String> static_ = Optional.ofNullable(member.path("static").asText(null));
    ByteBuffer data = userData(member.get("id").asText(), static_, topics, owned, generation);
    userData.put(member.get("id").asText(), data == null ? null : HexFormat.of().formatHex(data.duplicate().array()));
    Subscription made =
        new Subscription(topics, data, owned, generation, Optional.ofNullable(member.path("rack").asText(null)));
    made.setGroupInstanceId(static_);
    return made;
  }

  /** What the member itself would say, after the assignment that it owns. */
  private ByteBuffer userData(
      String id, Optional<String> static_, List<String> topics, List<TopicPartition> owned, int generation) {
    ConsumerPartitionAssignor its = made();
    if (generation >= 0 || !owned.isEmpty()) {
      its.onAssignment(new Assignment(owned), new ConsumerGroupMetadata("group", generation, id, static_));
    }
    return its.subscriptionUserData(Set.copyOf(topics));
  }

  private ConsumerPartitionAssignor made() {
    return switch (assignor) {
      case "range" -> new RangeAssignor();
      case "roundrobin" -> new RoundRobinAssignor();
      case "sticky" -> new StickyAssignor();
      case "cooperative" -> new CooperativeStickyAssignor();
      default -> throw new IllegalArgumentException(assignor);
    };
  }

  @Override
  public void call() {
    made().assign(cluster, group);
  }

  @Override
  public JsonNode answer() {
    ObjectNode said = Main.JSON.createObjectNode();
    ObjectNode members = said.putObject("members");
    made()
        .assign(cluster, group)
        .groupAssignment()
        .forEach(
            (member, assignment) -> {
              ArrayNode owned = members.putArray(member);
              assignment.partitions().forEach(each -> owned.addArray().add(each.topic()).add(each.partition()));
            });
    said.set("user_data", userData);
    return said;
  }
}

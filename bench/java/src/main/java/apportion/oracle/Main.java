package apportion.oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/**
 * Answers one case a line, in JSON, with what Helix or Kafka answers: {"answer": ...}, or {"error": ...} where they throw.
 *
 * <p>Helix answers as if a case were the first of the process, unless it "remembers". With "calls" in the case,
 * "median_ns" is the median time of so many calls, after "warmup" of them.
 */
public final class Main {
  static final ObjectMapper JSON = new ObjectMapper();

  private Main() {}

  public static void main(String[] arguments) throws IOException {
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    PrintStream answers = new PrintStream(System.out, false, StandardCharsets.UTF_8);
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      answers.println(JSON.writeValueAsString(answered(JSON.readTree(line))));
      answers.flush();
    }
    // Helix's scheduler has a thread that would keep the process.
    System.exit(0);
  }

  private static Case made(JsonNode given) {
    return switch (given.path("ask").asText()) {
      case "model" -> new HelixModel(given);
      case "states" -> new HelixStates(given);
      case "delay" -> new HelixDelay(given);
      case "kept" -> new HelixKept(given);
      case "throttle" -> new HelixThrottle(given);
      default -> given.has("strategy") ? new HelixCase(given) : new KafkaCase(given);
    };
  }

  private static ObjectNode answered(JsonNode given) {
    ObjectNode said = JSON.createObjectNode();
    if (!given.path("remembers").asBoolean()) {
      HelixHidden.forgetCircles();
    }
    try {
      Case asked = made(given);
      said.set("answer", asked.answer());
      if (given.has("calls")) {
        said.put("median_ns", median(asked, given.path("warmup").asInt(0), given.get("calls").asInt()));
      }
    } catch (RuntimeException error) {
      said.put("error", error.toString());
    }
    return said;
  }

  private static long median(Case asked, int warmup, int calls) {
    for (int call = 0; call < warmup; call++) {
      asked.call();
    }
    long[] times = new long[calls];
    for (int call = 0; call < calls; call++) {
      long start = System.nanoTime();
      asked.call();
      times[call] = System.nanoTime() - start;
    }
    Arrays.sort(times);
    return times[calls / 2];
  }
}

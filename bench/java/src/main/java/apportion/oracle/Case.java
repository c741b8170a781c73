package apportion.oracle;

import com.fasterxml.jackson.databind.JsonNode;

/** One question; it can be asked again and again. */
interface Case {
  /** Compute, and throw the result away. */
  void call();

  /** Compute, and say the result. */
  JsonNode answer();
}

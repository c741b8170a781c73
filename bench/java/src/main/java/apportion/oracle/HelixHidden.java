package apportion.oracle;

import com.google.common.cache.Cache;
import java.lang.reflect.Field;
import org.apache.helix.controller.rebalancer.strategy.crushMapping.ConsistentHashingAdjustmentAlgorithm;

/** Fields that Helix keeps to itself. */
final class HelixHidden {
  private HelixHidden() {}

  /**
   * Forget the circles of earlier cases, as a controller that has just begun.
   *
   * <p>Helix keeps a circle for minutes, by the names of its nodes alone. In the circle, a token of two nodes belongs to
   * the one that came later, in the order of the zones of that time: the answer would depend on the cases before.
   */
  static void forgetCircles() {
    ((Cache<?, ?>) read(ConsistentHashingAdjustmentAlgorithm.class, "_selectorCache", null)).invalidateAll();
  }

  static Object read(Class<?> owner, String name, Object of) {
    try {
      return field(owner, name).get(of);
    } catch (IllegalAccessException error) {
      throw new IllegalStateException(error);
    }
  }

  static void write(Class<?> owner, String name, Object of, Object value) {
    try {
      field(owner, name).set(of, value);
    } catch (IllegalAccessException error) {
      throw new IllegalStateException(error);
    }
  }

  private static Field field(Class<?> owner, String name) {
    try {
      Field field = owner.getDeclaredField(name);
      field.setAccessible(true);
      return field;
    } catch (NoSuchFieldException error) {
      throw new IllegalStateException(error);
    }
  }
}

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Consumer;
import org.apache.hudi.common.table.timeline.TimeGenerator;
import org.apache.hudi.common.table.timeline.TimeGenerators;

/** A clock of Hudi's that says a given time once, as a clock that is wrong may, and then the right one. */
public final class FixedTime implements TimeGenerator {

  // Hudi's own cache holds on to none.
  private static final Map<String, FixedTime> SET = new ConcurrentHashMap<>();

  private Long once;

  private FixedTime(long once) {
    this.once = once;
  }

  /** Has the writers of a table in this JVM that reuse their clocks begin their next instant then, in milliseconds. */
  public static void set(String table, long millis) throws ReflectiveOperationException {
    FixedTime fixed = new FixedTime(millis);
    SET.put(table, fixed);
    var field = TimeGenerators.class.getDeclaredField("TIME_GENERATOR_CACHE");
    field.setAccessible(true);
    Object cache = field.get(null);
    field.getType().getMethod("put", Object.class, Object.class).invoke(cache, table, fixed);
  }

  @Override
  public synchronized long generateTime(boolean skipLocking) {
    long said = once == null ? System.currentTimeMillis() : once;
    once = null;
    return said;
  }

  @Override
  public void consumeTime(boolean skipLocking, Consumer<Long> consumer) {
    consumer.accept(System.currentTimeMillis());
  }
}

package org.putifabsent.hadoop;

import java.lang.reflect.Field;
import java.util.Map;
import java.util.Set;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.FilterFileSystem;

/**
 * The filesystems that this JVM has opened: Hadoop hands each of them to whoever asks next, whatever their settings are.
 *
 * <p>Hadoop has no public way to look at them without opening one. Where its fields have other names, none are found.
 */
final class FilesystemCache {

  private static final String CLASSES = FilesystemCache.class.getPackageName() + ".";

  private FilesystemCache() {}

  /** Refuses to go on where a filesystem of one of these schemes is none of the adapter's. */
  static void check(Set<String> guarded) {
    try {
      Object cache = field(FileSystem.class, "CACHE").get(null);
      synchronized (cache) {
        for (Map.Entry<?, ?> each : ((Map<?, ?>) field(cache.getClass(), "map").get(cache)).entrySet()) {
          Object scheme = field(each.getKey().getClass(), "scheme").get(each.getKey());
          if (guarded.contains(scheme) && isShared(each.getKey()) && !isGuarded((FileSystem) each.getValue())) {
            throw refused(scheme, each.getValue().getClass());
          }
        }
      }
    } catch (ReflectiveOperationException | ClassCastException unknown) {
      // Another Hadoop than those of 3.3 to 3.5.
    }
  }

  /** Whether others get it as well: what was made for one caller has a number of its own. */
  private static boolean isShared(Object key) throws ReflectiveOperationException {
    return field(key.getClass(), "unique").getLong(key) == 0;
  }

  private static boolean isGuarded(FileSystem files) {
    FileSystem each = files;
    while (!each.getClass().getName().startsWith(CLASSES)) {
      if (!(each instanceof FilterFileSystem)) {
        return false;
      }
      each = ((FilterFileSystem) each).getRawFileSystem();
    }
    return true;
  }

  private static Field field(Class<?> type, String name) throws ReflectiveOperationException {
    Field field = type.getDeclaredField(name);
    field.setAccessible(true);
    return field;
  }

  private static RuntimeException refused(Object scheme, Class<?> type) {
    return new IllegalArgumentException(
        "putifabsent: this would go past the guard, for " + scheme + ":// was opened here without it, by "
            + type.getName() + ", which Hadoop hands to all of this JVM: restart this session's JVM");
  }
}

package org.putifabsent.hadoop;

import java.io.IOException;
import java.io.InterruptedIOException;
import java.io.UncheckedIOException;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hadoop.fs.Path;
import org.apache.iceberg.CatalogProperties;
import org.apache.iceberg.LockManager;

/** Iceberg's lock is the table's turn: {@code lock-impl}. */
public final class IcebergLockManager implements LockManager {

  private final Map<String, Turn> held = new ConcurrentHashMap<>();
  private Map<String, String> properties = Map.of();
  private Duration atMost = Duration.ofMillis(CatalogProperties.LOCK_ACQUIRE_TIMEOUT_MS_DEFAULT);

  @Override
  public void initialize(Map<String, String> said) {
    properties = new HashMap<>(said);
    String millis = said.get(CatalogProperties.LOCK_ACQUIRE_TIMEOUT_MS);
    if (millis != null) {
      atMost = Duration.ofMillis(Long.parseLong(millis));
    }
  }

  /** Takes the turn of the table that a metadata file, the entity, is of. */
  @Override
  public boolean acquire(String entity, String owner) {
    Path table = new Path(entity).getParent().getParent();
    try {
      Optional<Turn> turn = CatalogTurns.of(properties, table).take(atMost);
      turn.ifPresent(taken -> held.put(key(entity, owner), taken));
      return turn.isPresent();
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
      throw new UncheckedIOException(new InterruptedIOException(interrupted.getMessage()));
    }
  }

  /** Gives back what this owner has taken; false: nothing. Iceberg asks so after each acquire that failed. */
  @Override
  public boolean release(String entity, String owner) {
    Turn turn = held.remove(key(entity, owner));
    if (turn == null) {
      return false;
    }
    turn.release();
    return true;
  }

  @Override
  public void close() {
    // Whoever has taken a turn gives it back.
  }

  private static String key(String entity, String owner) {
    return entity + " " + owner;
  }
}

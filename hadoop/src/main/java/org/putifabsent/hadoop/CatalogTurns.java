package org.putifabsent.hadoop;

import java.io.IOException;
import java.time.Duration;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.TimeoutException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;

/**
 * The turns of a table, for catalogs that hand no {@link Configuration} on to their locks.
 *
 * <p>What is not among the catalog's own options is that of the guarded filesystem through which this process writes
 * the table; where there is none, that of {@code core-site.xml}.
 */
final class CatalogTurns {

  private static final Configuration SITE = new Configuration();

  private final Service service;
  private final Name table;

  private CatalogTurns(Service service, Name table) {
    this.service = service;
    this.table = table;
  }

  /** Returns those of a table, by its folder, in a catalog with these options. */
  static CatalogTurns of(Map<String, String> options, Path table) throws IOException {
    Name name = Name.of(table, SITE);
    Configuration conf = new Configuration(Guard.mounted(name).orElse(SITE));
    for (Map.Entry<String, String> option : options.entrySet()) {
      if (option.getKey().startsWith(Settings.OURS)) {
        conf.set(option.getKey(), option.getValue());
      }
    }
    return new CatalogTurns(Service.of(Settings.of(conf)), name);
  }

  /** Takes the turn, as {@link Turn#take} does. */
  Optional<Turn> take(Duration atMost) throws IOException, InterruptedException {
    return Turn.take(service, table, atMost.toNanos());
  }

  /** What is said where it was not got. */
  TimeoutException timeout() {
    return new TimeoutException("another session or thread has had the turn of " + table + " all the time");
  }
}

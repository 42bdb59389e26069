package org.putifabsent.hadoop;

import java.net.URI;
import java.util.HashSet;
import java.util.Iterator;
import java.util.Map;
import java.util.Objects;
import java.util.ServiceConfigurationError;
import java.util.ServiceLoader;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.Function;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.IllegalConfigurationException;
import org.apache.flink.core.fs.FileSystem;
import org.apache.flink.core.fs.FileSystemFactory;
import org.apache.flink.core.fs.UnsupportedFileSystemSchemeException;
import org.apache.flink.core.plugin.PluginUtils;
import org.apache.flink.runtime.util.HadoopUtils;
import org.apache.paimon.fs.FileIOLoader;

/**
 * Refuses to start where the adapter lies in Flink's {@code lib/}, and writers would get past it.
 *
 * <p>Flink makes one of these whenever a process of it starts. It is no filesystem: Flink and Paimon ask Hadoop's, and
 * thereby the adapter, for what nothing else answers for. A plug-in of Flink's, or a loader of Paimon's, would be asked
 * first, and writes by a client that it brings along.
 */
public final class FlinkGuard implements FileSystemFactory {

  private static final String JAR = "putifabsent-hadoop.jar is in lib/, ";

  /** Is called by reflection. */
  public FlinkGuard() {}

  @Override
  public String getScheme() {
    return "putifabsent";
  }

  @Override
  public void configure(Configuration flink) {
    org.apache.hadoop.conf.Configuration hadoop = hadoop(new Configuration());
    Set<String> guarded = guarded(hadoop);
    if (guarded.isEmpty()) {
      throw new IllegalConfigurationException(
          JAR + "and Hadoop's settings guard no scheme by it: set HADOOP_CONF_DIR to the folder of the core-site.xml"
              + " that `putifabsent flink-conf` prints");
    }
    checkUnchanged(guarded, hadoop, hadoop(flink));
    // Flink asks the last of one scheme; those of lib/ come first.
    check(guarded, ServiceLoader.load(FileSystemFactory.class).iterator(), FileSystemFactory::getScheme);
    Iterator<FileSystemFactory> plugins =
        PluginUtils.createPluginManagerFromRootFolder(flink).load(FileSystemFactory.class);
    check(guarded, plugins, FileSystemFactory::getScheme);
    try {
      check(guarded, ServiceLoader.load(FileIOLoader.class).iterator(), FileIOLoader::getScheme);
    } catch (NoClassDefFoundError error) {
      // There is no Paimon.
    }
  }

  private static org.apache.hadoop.conf.Configuration hadoop(Configuration flink) {
    try {
      return HadoopUtils.getHadoopConfiguration(flink);
    } catch (NoClassDefFoundError error) {
      throw new IllegalConfigurationException(JAR + "and no Hadoop that it could guard: set HADOOP_CLASSPATH", error);
    }
  }

  /** Returns the schemes that Hadoop's own settings guard: not all writers see what Flink's add to them. */
  private static Set<String> guarded(org.apache.hadoop.conf.Configuration hadoop) {
    Set<String> found = new HashSet<>();
    for (Map.Entry<String, String> each : hadoop) {
      String[] key = each.getKey().split("\\.");
      if (key.length == 3 && key[0].equals("fs") && key[2].equals("impl") && Guard.isMounted(key[1], hadoop)) {
        found.add(key[1]);
      }
    }
    // Flink and Paimon have classes of their own for local files.
    found.remove("file");
    return found;
  }

  /** Refuses what Flink's own settings change for the writers that do see them. */
  static void checkUnchanged(
      Set<String> guarded, org.apache.hadoop.conf.Configuration hadoop, org.apache.hadoop.conf.Configuration flinks) {
    Set<String> keys = new TreeSet<>();
    for (String scheme : guarded) {
      keys.add("fs." + scheme + ".impl");
      keys.add("fs.AbstractFileSystem." + scheme + ".impl");
    }
    hadoop.getPropsWithPrefix(Settings.OURS).keySet().forEach(key -> keys.add(Settings.OURS + key));
    for (String key : keys) {
      if (!Objects.equals(hadoop.getRaw(key), flinks.getRaw(key))) {
        throw new IllegalConfigurationException(
            JAR + "and Flink's own settings change " + key + ", which guards by its value in core-site.xml: remove"
                + " flink.hadoop." + key + " from config.yaml");
      }
    }
  }

  private static <T> void check(Set<String> guarded, Iterator<T> provided, Function<T, String> schemeOf) {
    while (provided.hasNext()) {
      T each;
      try {
        each = provided.next();
      } catch (ServiceConfigurationError broken) {
        // Nobody else can make it either.
        continue;
      }
      String scheme = schemeOf.apply(each);
      if (guarded.contains(scheme)) {
        throw new IllegalConfigurationException(
            scheme + ":// is guarded, and what Flink or Paimon writes there would go past the guard, by "
                + each.getClass().getName() + ": remove its jar, and name what needs it by another scheme (of"
                + " flink-s3-fs-presto: s3p://)");
      }
    }
  }

  @Override
  public FileSystem create(URI uri) throws UnsupportedFileSystemSchemeException {
    throw new UnsupportedFileSystemSchemeException(
        getScheme() + ":// is no filesystem: name files by the scheme that is guarded, such as s3a://");
  }
}

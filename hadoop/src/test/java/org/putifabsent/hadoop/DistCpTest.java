package org.putifabsent.hadoop;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.Arrays;
import java.util.List;
import java.util.UUID;
import java.util.function.UnaryOperator;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.tools.DistCp;
import org.apache.hadoop.tools.DistCpOptions;
import org.junit.Before;
import org.junit.Test;

/**
 * {@code hadoop distcp} of a table onto a guarded scheme, in the order of names.
 *
 * <p>By default it copies at random, and with many at once: of an entry that comes after later ones nobody can tell
 * whether it has been there, and has expired.
 */
public class DistCpTest {
  private static final int ENTRIES = 12;

  private File source;
  private File target;

  @Before
  public void setUp() throws IOException {
    File folder = new File(System.getProperty("hadoop.tmp.dir"), UUID.randomUUID().toString());
    source = new File(folder, "source/t");
    target = new File(folder, "target");
    assertThat(new File(source, "_delta_log").mkdirs()).isTrue();
    assertThat(target.mkdirs()).isTrue();
    for (int number = 0; number < ENTRIES; number++) {
      write(new File(source, entry(number)), "entry " + number);
      write(new File(source, "part-" + number + ".parquet"), "rows " + number);
    }
  }

  @Test
  public void aTableIsCopiedByTemporaryFilesAndDirectly() throws Exception {
    for (boolean directly : new boolean[] {false, true}) {
      File copy = new File(target, directly + "/t");
      distcp(copy, options -> options.withDirectWrite(directly)).execute();
      assertThat(names(copy)).containsExactlyElementsOf(names(source));
      assertThat(read(new File(copy, entry(ENTRIES - 1)))).isEqualTo("entry " + (ENTRIES - 1));
    }
  }

  @Test
  public void whatOthersHaveCommittedThereStays() throws Exception {
    for (boolean directly : new boolean[] {false, true}) {
      File copy = new File(target, directly + "/t");
      assertThat(new File(copy, "_delta_log").mkdirs()).isTrue();
      write(new File(copy, entry(0)), "another's, which is longer");
      distcp(copy, options -> options.withDirectWrite(directly)).execute();
      assertThat(read(new File(copy, entry(0)))).isEqualTo("another's, which is longer");
    }
  }

  private DistCp distcp(File to, UnaryOperator<DistCpOptions.Builder> how) throws Exception {
    DistCpOptions.Builder options =
        how.apply(new DistCpOptions.Builder(List.of(new Path(source.toURI())), new Path(to.getParentFile().toURI())).maxMaps(1));
    Configuration conf = new Configuration();
    ServiceProcess.tellOfAllFiles(conf);
    conf.setClass("fs.file.impl", GuardedLocalFileSystem.class, FileSystem.class);
    conf.set("mapreduce.framework.name", "local");
    conf.set("mapreduce.cluster.local.dir", new File(target.getParentFile(), "local").getPath());
    conf.setInt("mapreduce.client.completion.pollinterval", 100);
    conf.setBoolean("distcp.simplelisting.randomize.files", false);
    return new DistCp(conf, options.build());
  }

  private static String entry(int number) {
    return String.format("_delta_log/%020d.json", number);
  }

  private static void write(File file, String text) throws IOException {
    Files.write(file.toPath(), text.getBytes(StandardCharsets.UTF_8));
  }

  private static String read(File file) throws IOException {
    return new String(Files.readAllBytes(file.toPath()), StandardCharsets.UTF_8);
  }

  /** Returns the names in a table and its log, but for what the guard and Hadoop have of their own. */
  private static List<String> names(File table) {
    return IntStream.of(0, 1)
        .mapToObj(each -> each == 0 ? table : new File(table, "_delta_log"))
        .flatMap(folder -> Arrays.stream(folder.list()))
        .filter(name -> !name.startsWith("."))
        .sorted()
        .collect(Collectors.toList());
  }
}

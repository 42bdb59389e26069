import java.io.File;
import java.io.IOException;
import java.io.OutputStream;
import java.net.URI;
import java.util.regex.Pattern;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.FilterFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.util.Progressable;

/** A wrapper around a writer's filesystem, in which something goes wrong once, when a commit is created. */
public final class Saboteur extends FilterFileSystem {
  private static volatile Pattern commits;
  private static volatile String how;
  private static volatile String flag;
  private static volatile Path data;

  private Saboteur(FileSystem fs) {
    super(fs);
  }

  /** Has all of a JVM's writers to a bucket go through it. */
  public static void wrap(String bucket, Configuration conf) throws Exception {
    URI uri = URI.create(bucket);
    FileSystem fs = FileSystem.get(uri, conf);
    if (!(fs instanceof Saboteur)) {
      var add =
          FileSystem.class.getDeclaredMethod(
              "addFileSystemForTesting", URI.class, Configuration.class, FileSystem.class);
      add.setAccessible(true);
      add.invoke(null, uri, conf, new Saboteur(fs));
    }
  }

  /**
   * Says what the next commit meets.
   *
   * @param how half or empty: an exception in its stream, which is closed all the same; gone: its newest data file is
   *     removed; late: before it is there, it waits until the flag, a local file, is gone; null: nothing
   * @param commits the last components of commits' names
   */
  public static void set(String how, String commits, String flag) {
    synchronized (Saboteur.class) {
      Saboteur.commits = Pattern.compile(commits);
      Saboteur.flag = flag;
      Saboteur.how = how;
    }
  }

  @Override
  public String getScheme() {
    return fs.getScheme();
  }

  @Override
  public FSDataOutputStream create(
      Path path, FsPermission mode, boolean over, int buffer, short copies, long block, Progressable progress)
      throws IOException {
    if (path.getName().matches("[^.].*\\.parquet")) {
      data = path;
    }
    String met = taken(path);
    before(met);
    FSDataOutputStream out = super.create(path, mode, over, buffer, copies, block, progress);
    return met.isEmpty() ? out : new FSDataOutputStream(new Met(out, met), null);
  }

  @Override
  public boolean rename(Path from, Path to) throws IOException {
    String met = taken(to);
    before(met);
    if (met.equals("late")) {
      await();
    }
    return super.rename(from, to);
  }

  private void before(String met) throws IOException {
    if (met.equals("gone")) {
      fs.delete(data, false);
    }
  }

  private static void await() throws IOException {
    try {
      new File(flag).createNewFile();
      while (new File(flag).exists()) {
        Thread.sleep(50);
      }
    } catch (InterruptedException error) {
      throw new IOException(error);
    }
  }

  private static synchronized String taken(Path path) {
    boolean isNext = how != null && commits.matcher(path.getName()).matches();
    if (!isNext || (how.equals("gone") && data == null)) {
      return "";
    }
    String now = how;
    how = null;
    return now;
  }

  private static final class Met extends OutputStream {
    private final OutputStream out;
    private final String how;

    Met(OutputStream out, String how) {
      this.out = out;
      this.how = how;
    }

    @Override
    public void write(int one) throws IOException {
      write(new byte[] {(byte) one}, 0, 1);
    }

    @Override
    public void write(byte[] bytes, int from, int length) throws IOException {
      boolean isTorn = how.equals("half") || how.equals("empty");
      out.write(bytes, from, how.equals("empty") ? 0 : isTorn ? length / 2 : length);
      if (isTorn) {
        throw new IOException("something in a wrapper around the stream");
      }
    }

    @Override
    public void close() throws IOException {
      if (how.equals("late")) {
        await();
      }
      out.close();
    }
  }
}

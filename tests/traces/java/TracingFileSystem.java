import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.IOException;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.StandardOpenOption;
import java.util.Arrays;
import java.util.Base64;
import java.util.EnumSet;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.CreateFlag;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Options;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.util.Progressable;

/**
 * An object store on local disk that writes down what brings names into being and what removes them.
 *
 * <p>A file is there when its stream is closed, as in S3A. Each line of {@code traces.log} has the verb, the role of
 * the caller, the flag of the call, its outcome, the path, and either the target of a rename or the bytes in Base64.
 */
public final class TracingFileSystem extends RawLocalFileSystem {

  private static final Object LOCK = new Object();

  private URI uri;
  private File log;

  @Override
  public void initialize(URI uri, Configuration conf) throws IOException {
    this.uri = URI.create(uri.getScheme() + "://" + uri.getAuthority());
    this.log = new File(conf.get("traces.log"));
    super.initialize(uri, conf);
    setWorkingDirectory(new Path(this.uri + "/"));
  }

  @Override
  public URI getUri() {
    return uri == null ? super.getUri() : uri;
  }

  @Override
  public String getScheme() {
    return uri.getScheme();
  }

  @Override
  public File pathToFile(Path path) {
    return new File(makeQualified(path).toUri().getPath());
  }

  @Override
  public FSDataOutputStream create(
      Path path, boolean overwrite, int bufferSize, short replication, long blockSize, Progressable progress)
      throws IOException {
    if (!overwrite && exists(path)) {
      written("create", overwrite, "exists", path, "");
      throw new FileAlreadyExistsException(path.toString());
    }
    return new FSDataOutputStream(new Body(path, overwrite), statistics);
  }

  @Override
  public FSDataOutputStream create(
      Path path, FsPermission permission, boolean overwrite, int bufferSize, short replication, long blockSize,
      Progressable progress) throws IOException {
    return create(path, overwrite, bufferSize, replication, blockSize, progress);
  }

  @Override
  public FSDataOutputStream create(
      Path path, FsPermission permission, EnumSet<CreateFlag> flags, int bufferSize, short replication,
      long blockSize, Progressable progress, Options.ChecksumOpt checksum) throws IOException {
    return create(path, flags.contains(CreateFlag.OVERWRITE), bufferSize, replication, blockSize, progress);
  }

  @Override
  public FSDataOutputStream createNonRecursive(
      Path path, FsPermission permission, EnumSet<CreateFlag> flags, int bufferSize, short replication,
      long blockSize, Progressable progress) throws IOException {
    return create(path, flags.contains(CreateFlag.OVERWRITE), bufferSize, replication, blockSize, progress);
  }

  @Override
  public FSDataOutputStream append(Path path, int bufferSize, Progressable progress) {
    throw new UnsupportedOperationException("an object store does not append");
  }

  /** Never replaces anything. */
  @Override
  public boolean rename(Path source, Path target) throws IOException {
    boolean free = !exists(target) && exists(source);
    if (free) {
      mkdirs(target.getParent());
    }
    boolean done = free && pathToFile(source).renameTo(pathToFile(target));
    written("rename", false, done ? "done" : "false", source, target.toUri().getPath());
    return done;
  }

  @Override
  public boolean delete(Path path, boolean recursive) throws IOException {
    boolean done = super.delete(path, recursive);
    written("delete", recursive, done ? "done" : "false", path, "");
    return done;
  }

  /** In the order of an object store's. */
  @Override
  public FileStatus[] listStatus(Path path) throws IOException {
    return Arrays.stream(super.listStatus(path)).map(this::plain).sorted().toArray(FileStatus[]::new);
  }

  @Override
  public FileStatus getFileStatus(Path path) throws IOException {
    return plain(super.getFileStatus(path));
  }

  @Override
  public FileStatus getFileLinkStatus(Path path) throws IOException {
    return getFileStatus(path);
  }

  /** A disk's own would look for its owner, under a path of a disk. */
  private FileStatus plain(FileStatus found) {
    Path path = makeQualified(new Path(found.getPath().toUri().getPath()));
    return new FileStatus(found.getLen(), found.isDirectory(), 1, 1 << 25, found.getModificationTime(), path);
  }

  private void written(String verb, boolean flag, String outcome, Path path, String rest) throws IOException {
    boolean task = Thread.currentThread().getName().startsWith("Executor task");
    String line = String.join(
        "\t", verb, task ? "executor" : "driver", flag ? "1" : "0", outcome, path.toUri().getPath(), rest);
    synchronized (LOCK) {
      Files.write(
          log.toPath(), (line + "\n").getBytes(StandardCharsets.UTF_8), StandardOpenOption.CREATE,
          StandardOpenOption.APPEND);
    }
  }

  private final class Body extends ByteArrayOutputStream {
    private final Path path;
    private final boolean overwrite;
    private boolean open = true;

    Body(Path path, boolean overwrite) {
      this.path = path;
      this.overwrite = overwrite;
    }

    @Override
    public void close() throws IOException {
      if (!open) {
        return;
      }
      open = false;
      File file = pathToFile(path);
      Files.createDirectories(file.getParentFile().toPath());
      Files.write(file.toPath(), toByteArray());
      written("create", overwrite, "done", path, Base64.getEncoder().encodeToString(toByteArray()));
    }
  }
}

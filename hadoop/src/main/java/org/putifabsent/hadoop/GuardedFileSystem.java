package org.putifabsent.hadoop;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.URI;
import java.util.EnumSet;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.CommonPathCapabilities;
import org.apache.hadoop.fs.ContentSummary;
import org.apache.hadoop.fs.CreateFlag;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.FileUtil;
import org.apache.hadoop.fs.FilterFileSystem;
import org.apache.hadoop.fs.LocatedFileStatus;
import org.apache.hadoop.fs.MultipartUploaderBuilder;
import org.apache.hadoop.fs.Options;
import org.apache.hadoop.fs.ParentNotDirectoryException;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathFilter;
import org.apache.hadoop.fs.RemoteIterator;
import org.apache.hadoop.fs.StorageStatistics;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.util.Progressable;
import org.apache.hadoop.util.ReflectionUtils;

/**
 * The filesystem of a scheme, with guarded names: {@code fs.<scheme>.impl}.
 *
 * <p>A name that its table format never overwrites is created by the coordination service, which lets one creation
 * win; whatever brings such a name into being here leads there. Everything else is the wrapped filesystem's, whose
 * class {@code fs.putifabsent.wrapped.<scheme>} says.
 */
public final class GuardedFileSystem extends FilterFileSystem {

  private Service service;

  /** Is called by reflection. */
  public GuardedFileSystem() {
    // What is wrapped is known when it is initialized.
  }

  @Override
  public void initialize(URI uri, Configuration conf) throws IOException {
    service = Service.of(Settings.of(conf));
    String key = Settings.WRAPPED + uri.getScheme();
    Class<? extends FileSystem> wrapped = conf.getClass(key, null, FileSystem.class);
    if (wrapped == null || wrapped == GuardedFileSystem.class) {
      throw new IOException(key + " must say which class of filesystem is guarded");
    }
    fs = ReflectionUtils.newInstance(wrapped, null);
    super.initialize(uri, conf);
  }

  @Override
  public String getScheme() {
    return getUri().getScheme();
  }

  // --- what is asked

  private Name name(Path path) {
    return Name.of(makeQualified(path));
  }

  private Service.Names names() throws IOException {
    return service.names(name(new Path("/")));
  }

  boolean isAsked(Path path) throws IOException {
    return names().pattern.matcher(name(path).full).matches();
  }

  private Admission admitted(Path path) throws IOException {
    if (!isAsked(path)) {
      return Admission.PLAIN;
    }
    try {
      return service.admit(name(path));
    } catch (Refusal refusal) {
      throw refusal.asHadoopSays();
    }
  }

  private Path written(Path path, Admission admission) {
    return admission.at == null ? path : name(path).sibling(admission.at);
  }

  /** Returns where the wrapped filesystem may change a file as it pleases. */
  private Path changeable(Path path, String how) throws IOException {
    Admission admission = admitted(path);
    if (admission.guarded) {
      throw new UnsupportedOperationException(path + " is guarded: nothing may " + how);
    }
    return written(path, admission);
  }

  // --- create

  /** Writes a file of the wrapped filesystem. */
  private interface Writing {
    FSDataOutputStream to(Path path) throws IOException;
  }

  private FSDataOutputStream created(Path path, boolean recursive, Writing plainly) throws IOException {
    Admission admission = admitted(path);
    if (!admission.guarded) {
      return plainly.to(written(path, admission));
    }
    if (!recursive) {
      refuseWithoutFolder(path);
    }
    Name name = name(path);
    CreatedOnClose creating =
        new CreatedOnClose(
            name,
            names().largestBody,
            (bytes, length) -> {
              if (!decided(name, path, recursive, bytes, length)) {
                // What made it a table's name has gone meanwhile.
                try (FSDataOutputStream plain = plainly.to(path)) {
                  plain.write(bytes, 0, length);
                }
              }
            });
    return new FSDataOutputStream(creating, statistics);
  }

  private boolean decided(Name name, Path path, boolean recursive, byte[] bytes, int length) throws IOException {
    try {
      try {
        return service.create(name, bytes, length);
      } catch (Refusal refusal) {
        if (!recursive || !refusal.kind.equals(Refusal.ABSENT)) {
          throw refusal;
        }
        fs.mkdirs(path.getParent());
        return service.create(name, bytes, length);
      }
    } catch (Refusal refusal) {
      throw refusal.asHadoopSays();
    }
  }

  private FSDataOutputStream createdOrAppended(
      Path path, EnumSet<CreateFlag> flags, boolean recursive, Writing plainly) throws IOException {
    // Who says no flags at all is refused by the wrapped filesystem.
    if (flags != null && flags.contains(CreateFlag.APPEND)) {
      return plainly.to(changeable(path, "append to it"));
    }
    return created(path, recursive, plainly);
  }

  private void refuseWithoutFolder(Path path) throws IOException {
    Path folder = makeQualified(path).getParent();
    if (folder != null && !fs.getFileStatus(folder).isDirectory()) {
      throw new ParentNotDirectoryException(folder.toString());
    }
  }

  @Override
  public FSDataOutputStream create(
      Path path, FsPermission permission, boolean overwrite, int bufferSize, short replication, long blockSize,
      Progressable progress) throws IOException {
    return created(
        path,
        true,
        to -> super.create(to, permission, overwrite, bufferSize, replication, blockSize, progress));
  }

  @Override
  public FSDataOutputStream create(
      Path path, FsPermission permission, EnumSet<CreateFlag> flags, int bufferSize, short replication,
      long blockSize, Progressable progress, Options.ChecksumOpt checksum) throws IOException {
    return createdOrAppended(
        path,
        flags,
        true,
        to -> super.create(to, permission, flags, bufferSize, replication, blockSize, progress, checksum));
  }

  @Override
  public FSDataOutputStream createNonRecursive(
      Path path, FsPermission permission, EnumSet<CreateFlag> flags, int bufferSize, short replication,
      long blockSize, Progressable progress) throws IOException {
    return createdOrAppended(
        path,
        flags,
        false,
        to -> super.createNonRecursive(to, permission, flags, bufferSize, replication, blockSize, progress));
  }

  @Override
  protected FSDataOutputStream primitiveCreate(
      Path path, FsPermission permission, EnumSet<CreateFlag> flags, int bufferSize, short replication,
      long blockSize, Progressable progress, Options.ChecksumOpt checksum) throws IOException {
    return createdOrAppended(
        path,
        flags,
        true,
        to ->
            super.primitiveCreate(to, permission, flags, bufferSize, replication, blockSize, progress, checksum));
  }

  @Override
  public AskedBuilder createFile(Path path) {
    return new AskedBuilder(this, path).create().overwrite(true);
  }

  @Override
  public AskedBuilder appendFile(Path path) {
    return new AskedBuilder(this, path).append();
  }

  FSDataOutputStreamBuilder<?, ?> plainCreate(Path path) {
    return super.createFile(path);
  }

  FSDataOutputStreamBuilder<?, ?> plainAppend(Path path) {
    return super.appendFile(path);
  }

  @Override
  public void createSymlink(Path target, Path link, boolean createParent) throws IOException {
    super.createSymlink(target, changeable(link, "be a link"), createParent);
  }

  /** Goes round no name: whatever is copied is created here. */
  @Override
  public void copyFromLocalFile(boolean deleteSource, Path source, Path target) throws IOException {
    copyFromLocalFile(deleteSource, true, source, target);
  }

  @Override
  public void copyFromLocalFile(boolean deleteSource, boolean overwrite, Path[] sources, Path target)
      throws IOException {
    FileUtil.copy(getLocal(getConf()), sources, this, target, deleteSource, overwrite, getConf());
  }

  @Override
  public void copyFromLocalFile(boolean deleteSource, boolean overwrite, Path source, Path target)
      throws IOException {
    FileUtil.copy(getLocal(getConf()), source, this, target, deleteSource, overwrite, getConf());
  }

  @Override
  public Path startLocalOutput(Path output, Path temporary) {
    return temporary;
  }

  @Override
  public void completeLocalOutput(Path output, Path temporary) throws IOException {
    moveFromLocalFile(temporary, output);
  }

  /** Is refused: what uploads by parts goes round the names. */
  @Override
  public MultipartUploaderBuilder<?, ?> createMultipartUploader(Path base) {
    throw new UnsupportedOperationException("parts are not uploaded through a guarded filesystem");
  }

  @Override
  public boolean hasPathCapability(Path path, String capability) throws IOException {
    return !CommonPathCapabilities.FS_MULTIPART_UPLOADER.equalsIgnoreCase(capability)
        && super.hasPathCapability(path, capability);
  }

  // --- change

  @Override
  public FSDataOutputStream append(Path path, int bufferSize, Progressable progress) throws IOException {
    return super.append(changeable(path, "append to it"), bufferSize, progress);
  }

  @Override
  public boolean truncate(Path path, long length) throws IOException {
    return super.truncate(changeable(path, "truncate it"), length);
  }

  @Override
  public void concat(Path target, Path[] sources) throws IOException {
    super.concat(changeable(target, "append to it"), sources);
  }

  // --- rename, delete

  /**
   * Is false where another holds the name.
   *
   * @throws UncheckedIOException it is unknown whether it was renamed; what is checked, writers take for a failure
   *     (Iceberg tries again, and removes what it wrote)
   */
  @Override
  public boolean rename(Path source, Path target) throws IOException {
    try {
      return moved(source, target) || super.rename(source, target);
    } catch (OutcomeUnknownException unknown) {
      throw new UncheckedIOException(unknown);
    } catch (Refusal refusal) {
      if (refusal.kind.equals(Refusal.TAKEN)) {
        return false;
      }
      throw refusal.asHadoopSays();
    }
  }

  @Override
  protected void rename(Path source, Path target, Options.Rename... options) throws IOException {
    if (!movedOrRefused(source, target)) {
      super.rename(source, target, options);
    }
  }

  /** Renames where somebody must hear of it; false, and nothing was done: nobody must. */
  boolean movedOrRefused(Path source, Path target) throws IOException {
    try {
      return moved(source, target);
    } catch (Refusal refusal) {
      throw refusal.asHadoopSays();
    }
  }

  private boolean moved(Path source, Path target) throws IOException, Refusal {
    try {
      if ((isAsked(source) || isAsked(target)) && service.rename(name(source), name(target))) {
        return true;
      }
    } catch (Refusal refusal) {
      if (!refusal.kind.equals(Refusal.FOLDER)) {
        throw refusal;
      }
    }
    if (makeQualified(source).isRoot()) {
      return false;
    }
    Path within = new Path(target, source.getName());
    return (isAsked(source) || isAsked(within)) && isFolder(target) && service.rename(name(source), name(within));
  }

  private boolean isFolder(Path path) throws IOException {
    try {
      return fs.getFileStatus(path).isDirectory();
    } catch (FileNotFoundException absent) {
      return false;
    }
  }

  @Override
  public boolean delete(Path path, boolean recursive) throws IOException {
    try {
      return ((recursive || isAsked(path)) && service.delete(name(path), recursive)) || super.delete(path, recursive);
    } catch (Refusal refusal) {
      if (refusal.kind.equals(Refusal.ABSENT)) {
        return false;
      }
      throw refusal.asHadoopSays();
    }
  }

  // --- read: what the parent does by steps of its own the wrapped filesystem may do in fewer

  @Override
  public boolean exists(Path path) throws IOException {
    return fs.exists(path);
  }

  @Override
  @Deprecated
  public boolean isDirectory(Path path) throws IOException {
    return fs.isDirectory(path);
  }

  @Override
  @Deprecated
  public boolean isFile(Path path) throws IOException {
    return fs.isFile(path);
  }

  @Override
  public RemoteIterator<LocatedFileStatus> listFiles(Path path, boolean recursive) throws IOException {
    return fs.listFiles(path, recursive);
  }

  @Override
  public FileStatus[] globStatus(Path pattern) throws IOException {
    return fs.globStatus(pattern);
  }

  @Override
  public FileStatus[] globStatus(Path pattern, PathFilter filter) throws IOException {
    return fs.globStatus(pattern, filter);
  }

  @Override
  public ContentSummary getContentSummary(Path path) throws IOException {
    return fs.getContentSummary(path);
  }

  @Override
  public StorageStatistics getStorageStatistics() {
    return fs.getStorageStatistics();
  }
}

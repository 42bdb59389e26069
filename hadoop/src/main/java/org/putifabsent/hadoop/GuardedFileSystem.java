package org.putifabsent.hadoop;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.URI;
import java.util.EnumSet;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.ContentSummary;
import org.apache.hadoop.fs.CreateFlag;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.FileUtil;
import org.apache.hadoop.fs.FilterFileSystem;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.LocatedFileStatus;
import org.apache.hadoop.fs.MultipartUploaderBuilder;
import org.apache.hadoop.fs.Options;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathFilter;
import org.apache.hadoop.fs.RemoteIterator;
import org.apache.hadoop.fs.StorageStatistics;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.security.ProviderUtils;
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

  private Guard guard;

  /** Is called by reflection. */
  public GuardedFileSystem() {
    // What is wrapped is known when it is initialized.
  }

  @Override
  public void initialize(URI uri, Configuration said) throws IOException {
    // A credential store that lies here can't be asked how to open what it lies in.
    Configuration conf = ProviderUtils.excludeIncompatibleCredentialProviders(said, getClass());
    String key = Settings.WRAPPED + uri.getScheme();
    Class<? extends FileSystem> wrapped = conf.getClass(key, null, FileSystem.class);
    if (wrapped == null || wrapped == GuardedFileSystem.class) {
      String scheme = uri.getScheme();
      throw new IOException(
          scheme + ":// is not mounted, and may lead round what guards the same store under another scheme: use"
              + " that one; or mount " + scheme + ", so that " + key + " says which class of filesystem is guarded");
    }
    fs = ReflectionUtils.newInstance(wrapped, null);
    ClientEncryption.refuse(fs, uri, conf);
    guard = new Guard(this, fs, uri, conf);
    super.initialize(uri, conf);
  }

  Guard guard() {
    return guard;
  }

  @Override
  public String getScheme() {
    return getUri().getScheme();
  }

  // --- create

  @Override
  public FSDataOutputStream create(
      Path path, FsPermission permission, boolean overwrite, int bufferSize, short replication, long blockSize,
      Progressable progress) throws IOException {
    return guard.created(
        path,
        overwrite,
        true,
        to -> super.create(to, permission, overwrite, bufferSize, replication, blockSize, progress));
  }

  @Override
  public FSDataOutputStream create(
      Path path, FsPermission permission, EnumSet<CreateFlag> flags, int bufferSize, short replication,
      long blockSize, Progressable progress, Options.ChecksumOpt checksum) throws IOException {
    return guard.created(
        path,
        flags,
        true,
        to -> super.create(to, permission, flags, bufferSize, replication, blockSize, progress, checksum));
  }

  @Override
  public FSDataOutputStream createNonRecursive(
      Path path, FsPermission permission, EnumSet<CreateFlag> flags, int bufferSize, short replication,
      long blockSize, Progressable progress) throws IOException {
    return guard.created(
        path,
        flags,
        false,
        to -> super.createNonRecursive(to, permission, flags, bufferSize, replication, blockSize, progress));
  }

  @Override
  protected FSDataOutputStream primitiveCreate(
      Path path, FsPermission permission, EnumSet<CreateFlag> flags, int bufferSize, short replication,
      long blockSize, Progressable progress, Options.ChecksumOpt checksum) throws IOException {
    return guard.created(
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
    super.createSymlink(target, guard.changeable(link, "be a link"), createParent);
  }

  /** Goes round no name: whatever is copied is created here. */
  @Override
  public void copyFromLocalFile(boolean deleteSource, Path source, Path target) throws IOException {
    copyFromLocalFile(deleteSource, true, source, target);
  }

  @Override
  public void copyFromLocalFile(boolean deleteSource, boolean overwrite, Path[] sources, Path target)
      throws IOException {
    FileUtil.copy(Listing.of(getLocal(getConf())), sources, this, target, deleteSource, overwrite, getConf());
  }

  @Override
  public void copyFromLocalFile(boolean deleteSource, boolean overwrite, Path source, Path target)
      throws IOException {
    FileUtil.copy(Listing.of(getLocal(getConf())), source, this, target, deleteSource, overwrite, getConf());
  }

  @Override
  public void copyToLocalFile(boolean deleteSource, Path source, Path target) throws IOException {
    copyToLocalFile(deleteSource, source, target, false);
  }

  /** Goes round no name: what is moved is deleted here. */
  @Override
  public void copyToLocalFile(boolean deleteSource, Path source, Path target, boolean useRawLocalFileSystem)
      throws IOException {
    LocalFileSystem local = getLocal(getConf());
    FileSystem to = useRawLocalFileSystem ? local.getRawFileSystem() : local;
    FileUtil.copy(this, source, to, target, deleteSource, getConf());
  }

  @Override
  public Path startLocalOutput(Path output, Path temporary) {
    return temporary;
  }

  @Override
  public void completeLocalOutput(Path output, Path temporary) throws IOException {
    moveFromLocalFile(temporary, output);
  }

  @Override
  public MultipartUploaderBuilder<?, ?> createMultipartUploader(Path base) {
    throw Guard.noParts();
  }

  @Override
  public boolean hasPathCapability(Path path, String capability) throws IOException {
    return !Guard.isOfParts(capability) && super.hasPathCapability(path, capability);
  }

  // --- change

  @Override
  public FSDataOutputStream append(Path path, int bufferSize, Progressable progress) throws IOException {
    return super.append(guard.changeable(path, "append to it"), bufferSize, progress);
  }

  @Override
  public boolean truncate(Path path, long length) throws IOException {
    return super.truncate(guard.changeable(path, "truncate it"), length);
  }

  @Override
  public void concat(Path target, Path[] sources) throws IOException {
    super.concat(guard.changeable(target, "append to it"), sources);
  }

  // --- rename, delete

  /** Is false where another holds the name; throws an {@link UncheckedIOException} where that is unknown. */
  @Override
  public boolean rename(Path source, Path target) throws IOException {
    return guard.renamed(source, target, () -> super.rename(source, target));
  }

  @Override
  protected void rename(Path source, Path target, Options.Rename... options) throws IOException {
    if (!guard.movedOrRefused(source, target)) {
      super.rename(source, target, options);
    }
  }

  @Override
  public boolean delete(Path path, boolean recursive) throws IOException {
    return guard.deleted(path, recursive, () -> super.delete(path, recursive));
  }

  // --- read: in order; what the parent does by steps of its own the wrapped filesystem may do in fewer

  @Override
  public FileStatus[] listStatus(Path path) throws IOException {
    return Listing.shown(fs.listStatus(path));
  }

  @Override
  public RemoteIterator<FileStatus> listStatusIterator(Path path) throws IOException {
    return Listing.shown(fs.listStatusIterator(path));
  }

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
    return Listing.below(path, fs.listFiles(path, recursive));
  }

  @Override
  public RemoteIterator<LocatedFileStatus> listLocatedStatus(Path path) throws IOException {
    return Listing.below(path, fs.listLocatedStatus(path));
  }

  @Override
  public FileStatus[] globStatus(Path pattern) throws IOException {
    return Listing.found(pattern, fs.globStatus(pattern));
  }

  @Override
  public FileStatus[] globStatus(Path pattern, PathFilter filter) throws IOException {
    return Listing.found(pattern, fs.globStatus(pattern, filter));
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

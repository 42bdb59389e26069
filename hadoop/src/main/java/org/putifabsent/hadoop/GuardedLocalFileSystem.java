package org.putifabsent.hadoop;

import java.io.IOException;
import java.net.URI;
import java.util.EnumSet;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.CreateFlag;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileUtil;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.LocatedFileStatus;
import org.apache.hadoop.fs.MultipartUploaderBuilder;
import org.apache.hadoop.fs.Options;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathFilter;
import org.apache.hadoop.fs.RemoteIterator;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.security.ProviderUtils;
import org.apache.hadoop.util.Progressable;

/**
 * Local files, with guarded names: {@code fs.file.impl}.
 *
 * <p>Hadoop takes nothing but its own {@link LocalFileSystem} for local files, so this is one. It keeps checksums
 * beside all files but the guarded ones, which are complete or not there.
 */
public final class GuardedLocalFileSystem extends LocalFileSystem {

  private Guard guard;

  /** Is called by reflection. */
  public GuardedLocalFileSystem() {
    // The service is known when it is initialized.
  }

  @Override
  public void initialize(URI uri, Configuration said) throws IOException {
    // A credential store that lies here can't be asked how to open what it lies in.
    Configuration conf = ProviderUtils.excludeIncompatibleCredentialProviders(said, getClass());
    guard = new Guard(this, this, uri, conf);
    super.initialize(uri, conf);
  }

  Guard guard() {
    return guard;
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
    boolean overwrite = flags.contains(CreateFlag.OVERWRITE);
    return create(path, permission, overwrite, bufferSize, replication, blockSize, progress);
  }

  @Override
  @Deprecated
  public FSDataOutputStream createNonRecursive(
      Path path, FsPermission permission, boolean overwrite, int bufferSize, short replication, long blockSize,
      Progressable progress) throws IOException {
    return guard.created(
        path,
        overwrite,
        false,
        to -> super.createNonRecursive(to, permission, overwrite, bufferSize, replication, blockSize, progress));
  }

  @Override
  public FSDataOutputStream createNonRecursive(
      Path path, FsPermission permission, EnumSet<CreateFlag> flags, int bufferSize, short replication,
      long blockSize, Progressable progress) throws IOException {
    return guard.created(
        path,
        flags.contains(CreateFlag.OVERWRITE),
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
  public void createSymlink(Path target, Path link, boolean createParent) throws IOException {
    super.createSymlink(target, guard.changeable(link, "be a link"), createParent);
  }

  /** Goes round no name: whatever is copied is created here. */
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
  public MultipartUploaderBuilder<?, ?> createMultipartUploader(Path base) {
    throw Guard.noParts();
  }

  @Override
  public boolean hasPathCapability(Path path, String capability) throws IOException {
    return !Guard.isOfParts(capability) && super.hasPathCapability(path, capability);
  }

  // --- rename, delete

  /** Is false where another holds the name; throws an {@link java.io.UncheckedIOException} where that is unknown. */
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

  // --- read

  @Override
  public FileStatus[] listStatus(Path path) throws IOException {
    return Listing.shown(super.listStatus(path));
  }

  @Override
  public RemoteIterator<FileStatus> listStatusIterator(Path path) throws IOException {
    return Listing.shown(super.listStatusIterator(path));
  }

  @Override
  public RemoteIterator<LocatedFileStatus> listLocatedStatus(Path path) throws IOException {
    return Listing.below(path, super.listLocatedStatus(path));
  }

  @Override
  public FileStatus[] globStatus(Path pattern) throws IOException {
    return Listing.found(pattern, super.globStatus(pattern));
  }

  @Override
  public FileStatus[] globStatus(Path pattern, PathFilter filter) throws IOException {
    return Listing.found(pattern, super.globStatus(pattern, filter));
  }
}

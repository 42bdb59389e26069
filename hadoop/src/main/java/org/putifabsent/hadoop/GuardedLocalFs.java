package org.putifabsent.hadoop;

import java.io.IOException;
import java.net.URI;
import java.net.URISyntaxException;
import java.util.EnumSet;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.AbstractFileSystem;
import org.apache.hadoop.fs.CreateFlag;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FilterFs;
import org.apache.hadoop.fs.LocatedFileStatus;
import org.apache.hadoop.fs.MultipartUploaderBuilder;
import org.apache.hadoop.fs.Options;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.local.LocalFs;
import org.apache.hadoop.fs.RemoteIterator;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.util.Progressable;

/** {@link GuardedLocalFileSystem} for {@code FileContext}: {@code fs.AbstractFileSystem.file.impl}. */
public final class GuardedLocalFs extends FilterFs {

  private final Guard guard;

  /** Is called by reflection. */
  public GuardedLocalFs(URI uri, Configuration conf) throws IOException, URISyntaxException {
    super(local(uri, conf));
    GuardedLocalFileSystem names = new GuardedLocalFileSystem();
    names.initialize(uri, conf);
    guard = names.guard();
  }

  /** Returns Hadoop's own, whose constructors are not public. */
  private static AbstractFileSystem local(URI uri, Configuration conf) throws IOException {
    Configuration own = new Configuration(conf);
    own.setClass("fs.AbstractFileSystem." + uri.getScheme() + ".impl", LocalFs.class, AbstractFileSystem.class);
    return AbstractFileSystem.createFileSystem(uri, own);
  }

  @Override
  public FSDataOutputStream createInternal(
      Path path, EnumSet<CreateFlag> flags, FsPermission permission, int bufferSize, short replication,
      long blockSize, Progressable progress, Options.ChecksumOpt checksum, boolean createParent) throws IOException {
    return guard.created(
        path,
        flags,
        createParent,
        to ->
            super.createInternal(
                to, flags, permission, bufferSize, replication, blockSize, progress,
                checksum, createParent));
  }

  @Override
  public void renameInternal(Path source, Path target) throws IOException {
    if (!guard.movedOrRefused(source, target)) {
      super.renameInternal(source, target);
    }
  }

  @Override
  public void renameInternal(Path source, Path target, boolean overwrite) throws IOException {
    if (!guard.movedOrRefused(source, target)) {
      super.renameInternal(source, target, overwrite);
    }
  }

  @Override
  public boolean delete(Path path, boolean recursive) throws IOException {
    return guard.deleted(path, recursive, () -> super.delete(path, recursive));
  }

  @Override
  public void createSymlink(Path target, Path link, boolean createParent) throws IOException {
    super.createSymlink(target, guard.changeable(link, "be a link"), createParent);
  }

  @Override
  public MultipartUploaderBuilder<?, ?> createMultipartUploader(Path base) {
    throw Guard.noParts();
  }

  @Override
  public boolean hasPathCapability(Path path, String capability) throws IOException {
    return !Guard.isOfParts(capability) && super.hasPathCapability(path, capability);
  }

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
}

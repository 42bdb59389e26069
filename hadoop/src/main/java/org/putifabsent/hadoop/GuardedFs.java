package org.putifabsent.hadoop;

import java.io.IOException;
import java.lang.ref.Cleaner;
import java.lang.ref.Reference;
import java.net.URI;
import java.net.URISyntaxException;
import java.util.EnumSet;
import java.util.concurrent.CompletableFuture;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.CreateFlag;
import org.apache.hadoop.fs.DelegateToFileSystem;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.Options;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.impl.OpenFileParameters;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.io.IOUtils;
import org.apache.hadoop.util.Progressable;

/**
 * {@link GuardedFileSystem} for {@code FileContext}: {@code fs.AbstractFileSystem.<scheme>.impl}.
 *
 * <p>Nobody can close a {@code FileContext}. So what is wrapped is closed when nobody can use this any more, nor what it
 * has opened: {@code FileContext} itself makes one of these for a single call, where another scheme is its default.
 */
public final class GuardedFs extends DelegateToFileSystem {

  private static final Cleaner CLEANER = Cleaner.create();

  private final GuardedFileSystem guarded;

  /** Is called by reflection. */
  public GuardedFs(URI uri, Configuration conf) throws IOException, URISyntaxException {
    this(uri, new GuardedFileSystem(), conf);
  }

  private GuardedFs(URI uri, GuardedFileSystem guarded, Configuration conf) throws IOException, URISyntaxException {
    super(uri, guarded, conf, uri.getScheme(), false);
    this.guarded = guarded;
    CLEANER.register(this, () -> IOUtils.closeStream(guarded));
  }

  /** Asks before its parent does, which would remove the target first: a guarded one is somebody's. */
  @Override
  public void renameInternal(Path source, Path target, boolean overwrite) throws IOException {
    checkPath(source);
    checkPath(target);
    if (!guarded.guard().movedOrRefused(source, target)) {
      super.renameInternal(source, target, overwrite);
    }
  }

  // --- what is used after the call

  private <T> T opened(T used) {
    // Until nobody can use that any more, this is kept for it.
    CLEANER.register(used, () -> Reference.reachabilityFence(this));
    return used;
  }

  @Override
  public FSDataOutputStream createInternal(
      Path path, EnumSet<CreateFlag> flags, FsPermission permission, int bufferSize, short replication,
      long blockSize, Progressable progress, Options.ChecksumOpt checksum, boolean createParent) throws IOException {
    return opened(
        super.createInternal(
            path, flags, permission, bufferSize, replication, blockSize, progress, checksum, createParent));
  }

  @Override
  public FSDataInputStream open(Path path, int bufferSize) throws IOException {
    return opened(super.open(path, bufferSize));
  }

  @Override
  public CompletableFuture<FSDataInputStream> openFileWithOptions(Path path, OpenFileParameters parameters)
      throws IOException {
    return super.openFileWithOptions(path, parameters).thenApply(this::opened);
  }
}

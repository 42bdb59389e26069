package org.putifabsent.hadoop;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.URI;
import java.util.EnumSet;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.ChecksumFileSystem;
import org.apache.hadoop.fs.CommonPathCapabilities;
import org.apache.hadoop.fs.CreateFlag;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.ParentNotDirectoryException;
import org.apache.hadoop.fs.Path;

/**
 * What the service is asked about the names of a filesystem, and what is done with its answers.
 *
 * <p>Each guarded filesystem leads its calls here, with what is to be done where nothing guards the name.
 */
final class Guard {

  /** Writes a file of the wrapped filesystem. */
  interface Writing {
    FSDataOutputStream to(Path path) throws IOException;
  }

  /** Does a call as the wrapped filesystem does. */
  interface Call {
    boolean done() throws IOException;
  }

  private static final Map<String, Configuration> MOUNTED = new ConcurrentHashMap<>();

  private final FileSystem guarded;
  private final FileSystem wrapped;
  private final Service service;

  /** Takes the filesystem that callers see, and the one that is under it, or is itself. */
  Guard(FileSystem guarded, FileSystem wrapped, URI uri, Configuration conf) throws IOException {
    this.guarded = guarded;
    this.wrapped = wrapped;
    this.service = Service.of(Settings.of(conf));
    MOUNTED.put(Name.of(new Path(uri.resolve("/"))).filesystem(), conf);
  }

  /** Whether the filesystem of a scheme is a guarded one. */
  static boolean isMounted(String scheme, Configuration conf) {
    String type = conf.getTrimmed("fs." + scheme + ".impl", "");
    return type.equals(GuardedFileSystem.class.getName()) || type.equals(GuardedLocalFileSystem.class.getName());
  }

  /** Returns what the filesystem of this process in which the name lies was told, the last one of several. */
  static Optional<Configuration> mounted(Name name) {
    return Optional.ofNullable(MOUNTED.get(name.filesystem()));
  }

  // --- what is asked

  /** A filesystem goes to its own bucket, in whichever case, or with whichever user, a path says that. */
  private Name name(Path path) {
    String within = guarded.makeQualified(path).toUri().getPath();
    return Name.of(new Path(guarded.getUri().getScheme(), guarded.getUri().getAuthority(), within));
  }

  private Service.Names names() throws IOException {
    return service.names(name(new Path("/")));
  }

  boolean isAsked(Path path) throws IOException {
    return names().pattern.matcher(name(path).full).matches();
  }

  private Admission admitted(Path path, boolean overwrite) throws IOException {
    if (!isAsked(path)) {
      return Admission.PLAIN;
    }
    try {
      return service.admit(name(path), overwrite);
    } catch (Refusal refusal) {
      throw refusal.asHadoopSays();
    }
  }

  private Path written(Path path, Admission admission) {
    return admission.at == null ? path : name(path).sibling(admission.at);
  }

  /** Returns where the wrapped filesystem may change a file as it pleases. */
  Path changeable(Path path, String how) throws IOException {
    Admission admission = admitted(path, false);
    if (admission.guarded) {
      throw new UnsupportedOperationException(path + " is guarded: nothing may " + how);
    }
    return written(path, admission);
  }

  // --- create

  FSDataOutputStream created(Path path, boolean overwrite, boolean recursive, Writing plainly) throws IOException {
    Admission admission = admitted(path, overwrite);
    if (!admission.guarded) {
      return plainly.to(written(path, admission));
    }
    if (!recursive) {
      refuseWithoutFolder(path);
    }
    CreatedOnClose creating =
        new CreatedOnClose(
            name(path),
            names().largestBody,
            (bytes, length) -> {
              if (!decided(path, overwrite, recursive, bytes, length)) {
                // What made it a table's name has gone meanwhile.
                try (FSDataOutputStream plain = plainly.to(path)) {
                  plain.write(bytes, 0, length);
                }
              }
            });
    return new FSDataOutputStream(creating, statistics());
  }

  @SuppressWarnings("deprecation")
  private FileSystem.Statistics statistics() {
    return FileSystem.getStatistics(guarded.getScheme(), guarded.getClass());
  }

  /** Creates, unless it is said to append. */
  FSDataOutputStream created(Path path, EnumSet<CreateFlag> flags, boolean recursive, Writing plainly)
      throws IOException {
    // Who says no flags at all is refused by the wrapped filesystem.
    if (flags != null && flags.contains(CreateFlag.APPEND)) {
      return plainly.to(changeable(path, "append to it"));
    }
    return created(path, flags != null && flags.contains(CreateFlag.OVERWRITE), recursive, plainly);
  }

  private boolean decided(Path path, boolean overwrite, boolean recursive, byte[] bytes, int length)
      throws IOException {
    removeStaleChecksum(path);
    boolean created;
    try {
      try {
        created = service.create(name(path), bytes, length, overwrite);
      } catch (Refusal refusal) {
        if (!recursive || !refusal.kind.equals(Refusal.ABSENT)) {
          throw refusal;
        }
        wrapped.mkdirs(path.getParent());
        created = service.create(name(path), bytes, length, overwrite);
      }
    } catch (Refusal refusal) {
      throw refusal.asHadoopSays();
    }
    if (created && overwrite) {
      try {
        removeChecksum(path);
      } catch (IOException left) {
        // It is created, and must not look like a failure. Whoever reads it hears of the checksums.
      }
    }
    return created;
  }

  private void refuseWithoutFolder(Path path) throws IOException {
    Path folder = guarded.makeQualified(path).getParent();
    if (folder != null && !wrapped.getFileStatus(folder).isDirectory()) {
      throw new ParentNotDirectoryException(folder.toString());
    }
  }

  /** Says no to uploads by parts, which go round the names. */
  static UnsupportedOperationException noParts() {
    return new UnsupportedOperationException("parts are not uploaded through a guarded filesystem");
  }

  static boolean isOfParts(String capability) {
    return CommonPathCapabilities.FS_MULTIPART_UPLOADER.equalsIgnoreCase(capability);
  }

  // --- rename, delete

  /**
   * Renames as {@link FileSystem#rename}: false where another holds the name.
   *
   * @throws UncheckedIOException it is unknown whether it was renamed; what is checked, writers take for a failure
   *     (Iceberg tries again, and removes what it wrote)
   */
  boolean renamed(Path source, Path target, Call plainly) throws IOException {
    try {
      if (moved(source, target)) {
        return true;
      }
    } catch (OutcomeUnknownException | Service.Interrupted unknown) {
      throw new UncheckedIOException(unknown);
    } catch (Refusal refusal) {
      if (refusal.kind.equals(Refusal.TAKEN)) {
        return false;
      }
      throw refusal.asHadoopSays();
    }
    return plainly.done();
  }

  /** Renames where somebody must hear of it, or throws; false, and nothing was done: nobody must. */
  boolean movedOrRefused(Path source, Path target) throws IOException {
    try {
      return moved(source, target);
    } catch (Refusal refusal) {
      throw refusal.asHadoopSays();
    }
  }

  private boolean moved(Path source, Path target) throws IOException, Refusal {
    // Of a table that moves, its ledger goes along.
    Turn.releaseIn(name(source));
    try {
      if ((isAsked(source) || isAsked(target)) && movedTo(source, target)) {
        return true;
      }
    } catch (Refusal refusal) {
      if (!refusal.kind.equals(Refusal.FOLDER)) {
        throw refusal;
      }
    }
    if (guarded.makeQualified(source).isRoot()) {
      return false;
    }
    Path within = new Path(target, source.getName());
    return (isAsked(source) || isAsked(within)) && isFolder(target) && movedTo(source, within);
  }

  private boolean movedTo(Path source, Path target) throws IOException, Refusal {
    removeStaleChecksum(target);
    if (!service.rename(name(source), name(target))) {
      return false;
    }
    forgetChecksum(source);
    return true;
  }

  private boolean isFolder(Path path) throws IOException {
    try {
      return wrapped.getFileStatus(path).isDirectory();
    } catch (FileNotFoundException absent) {
      return false;
    }
  }

  boolean deleted(Path path, boolean recursive, Call plainly) throws IOException {
    if (isKept(path)) {
      return plainly.done();
    }
    try {
      if ((recursive || isAsked(path)) && service.delete(name(path), recursive)) {
        forgetChecksum(path);
        return true;
      }
      return plainly.done();
    } catch (Refusal refusal) {
      if (refusal.kind.equals(Refusal.ABSENT)) {
        return false;
      }
      throw refusal.asHadoopSays();
    }
  }

  /** Whether it is a bucket's root, of which S3A deletes nothing: so nothing in it may end here, either. */
  private boolean isKept(Path path) {
    return ClientEncryption.isS3A(wrapped.getClass()) && guarded.makeQualified(path).isRoot();
  }

  /** Removes the checksums of a file that is not there: whatever is created under its name has none. */
  private void removeStaleChecksum(Path path) throws IOException {
    if (wrapped instanceof ChecksumFileSystem && !guarded.makeQualified(path).isRoot()) {
      if (!((ChecksumFileSystem) wrapped).getRawFileSystem().exists(path)) {
        removeChecksum(path);
      }
    }
  }

  /** Removes the checksums of what was there before, written round the guard. */
  private void removeChecksum(Path path) throws IOException {
    if (wrapped instanceof ChecksumFileSystem) {
      ChecksumFileSystem checking = (ChecksumFileSystem) wrapped;
      Path checksum = checking.getChecksumFile(path);
      if (checking.getRawFileSystem().exists(checksum)) {
        checking.getRawFileSystem().delete(checksum, false);
      }
    }
  }

  private void forgetChecksum(Path gone) {
    try {
      removeStaleChecksum(gone);
    } catch (IOException left) {
      // What was asked for is done, and must not look like a failure. Whoever creates the name removes it first.
    }
  }
}

package org.putifabsent.hadoop;

import java.io.IOException;
import java.util.EnumSet;
import java.util.Map;
import java.util.Set;
import org.apache.hadoop.fs.CreateFlag;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.Path;

/** Builds a stream: what nothing guards is built by the wrapped filesystem, with all that was said. */
final class AskedBuilder extends FSDataOutputStreamBuilder<FSDataOutputStream, AskedBuilder> {

  /** What may be demanded of a guarded name, since it holds for all of them (S3A has it from Hadoop 3.4.2 on). */
  private static final Set<String> KEPT = Set.of("fs.option.create.conditional.overwrite");

  private final GuardedFileSystem guarded;

  AskedBuilder(GuardedFileSystem guarded, Path path) {
    super(guarded, path);
    this.guarded = guarded;
  }

  @Override
  public AskedBuilder getThisBuilder() {
    return this;
  }

  @Override
  public FSDataOutputStream build() throws IOException {
    EnumSet<CreateFlag> flags = getFlags();
    boolean appends = flags.contains(CreateFlag.APPEND);
    if (!guarded.guard().isAsked(getPath())) {
      return handedOn(appends ? guarded.plainAppend(getPath()) : guarded.plainCreate(getPath())).build();
    }
    rejectUnknownMandatoryKeys(KEPT, "for " + getPath());
    if (appends) {
      return guarded.append(getPath(), getBufferSize(), getProgress());
    }
    return guarded
        .guard()
        .created(getPath(), flags, isRecursive(), to -> handedOn(guarded.plainCreate(to)).build());
  }

  private FSDataOutputStreamBuilder<?, ?> handedOn(FSDataOutputStreamBuilder<?, ?> plain) {
    plain.permission(getPermission());
    plain.bufferSize(getBufferSize());
    plain.replication(getReplication());
    plain.blockSize(getBlockSize());
    if (getProgress() != null) {
      plain.progress(getProgress());
    }
    if (getChecksumOpt() != null) {
      plain.checksumOpt(getChecksumOpt());
    }
    if (isRecursive()) {
      plain.recursive();
    }
    if (getFlags().contains(CreateFlag.CREATE)) {
      plain.create();
      plain.overwrite(getFlags().contains(CreateFlag.OVERWRITE));
    }
    for (Map.Entry<String, String> option : getOptions()) {
      if (getMandatoryKeys().contains(option.getKey())) {
        plain.must(option.getKey(), option.getValue());
      } else {
        plain.opt(option.getKey(), option.getValue());
      }
    }
    return plain;
  }
}

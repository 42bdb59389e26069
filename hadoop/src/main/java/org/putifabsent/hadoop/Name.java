package org.putifabsent.hadoop;

import java.net.URI;
import java.util.Objects;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/** A path as the service spells it. */
final class Name {

  /** With its scheme: {@code s3a://lake/t/_delta_log/0.json}, {@code file:/t/_delta_log/0.json}. */
  final String address;

  /** Without it, and for object stores with the bucket or container: what the service's patterns are about. */
  final String full;

  private final URI uri;

  private Name(URI uri) {
    this.uri = uri;
    String authority = uri.getAuthority();
    this.full = bucket() + uri.getPath();
    this.address = uri.getScheme() + (authority == null ? ":" : "://" + authority) + uri.getPath();
  }

  /** Takes a path that says its scheme, and its authority where its filesystem has one. */
  static Name of(Path qualified) {
    return new Name(qualified.toUri());
  }

  /** Whether it is a folder's, or of something in it. */
  boolean isIn(Name folder) {
    return (address + "/").startsWith(folder.address + "/");
  }

  /** Takes a path that may leave to the configuration which filesystem it is of. */
  static Name of(Path path, Configuration conf) {
    return of(path.makeQualified(FileSystem.getDefaultUri(conf), new Path("/")));
  }

  String scheme() {
    return uri.getScheme();
  }

  /** The filesystem that it is of: a scheme, and an authority where there is one. */
  String filesystem() {
    return uri.getScheme() + "://" + Objects.toString(uri.getAuthority(), "");
  }

  /** Returns the path of another full name in the same filesystem. */
  Path sibling(String other) {
    return new Path(uri.getScheme(), uri.getAuthority(), other.substring(bucket().length()));
  }

  /** The bucket, or of {@code container@account} the container; empty on a disk. */
  private String bucket() {
    String container = uri.getUserInfo();
    return container == null ? Objects.toString(uri.getAuthority(), "") : container;
  }

  @Override
  public String toString() {
    return address;
  }
}

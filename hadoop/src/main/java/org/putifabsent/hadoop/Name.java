package org.putifabsent.hadoop;

import java.net.URI;
import org.apache.hadoop.fs.Path;

/** A path as the service spells it. */
final class Name {

  /** With its scheme: {@code s3a://lake/t/_delta_log/0.json}, {@code file:/t/_delta_log/0.json}. */
  final String address;

  /** Without it, and for object stores with the bucket: what the service's patterns are about. */
  final String full;

  private final URI uri;

  private Name(URI uri) {
    this.uri = uri;
    String authority = uri.getAuthority();
    this.full = authority == null ? uri.getPath() : authority + uri.getPath();
    this.address = uri.getScheme() + (authority == null ? ":" : "://") + full;
  }

  /** Takes a path that says its scheme, and its authority where its filesystem has one. */
  static Name of(Path qualified) {
    return new Name(qualified.toUri());
  }

  /** Returns the path of another full name in the same filesystem. */
  Path sibling(String other) {
    String authority = uri.getAuthority();
    String path = authority == null ? other : other.substring(authority.length());
    return new Path(uri.getScheme(), authority, path);
  }

  @Override
  public String toString() {
    return address;
  }
}

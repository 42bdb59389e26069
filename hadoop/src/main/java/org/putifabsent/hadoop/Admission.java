package org.putifabsent.hadoop;

/** What a plain write to a name is: the service's answer to {@code admit}. */
final class Admission {

  /** A write to the wrapped filesystem, under its own name. */
  static final Admission PLAIN = new Admission(false, null);

  /** It is a create, which the service does. */
  final boolean guarded;

  /** Where the wrapped filesystem is to write instead, or null: under its own name. */
  final String at;

  Admission(boolean guarded, String at) {
    this.guarded = guarded;
    this.at = at;
  }
}

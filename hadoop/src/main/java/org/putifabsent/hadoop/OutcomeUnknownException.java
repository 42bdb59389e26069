package org.putifabsent.hadoop;

import java.io.IOException;

/**
 * It is not known whether a name was created: delete nothing that a creation would have made true.
 *
 * <p>Whoever must know asks {@code resolve} of the coordination service for the token later.
 */
public final class OutcomeUnknownException extends IOException {

  private static final long serialVersionUID = 1L;

  private final String path;
  private final String token;

  /** Says it of a step of which no creation is known: a deletion that a ledger should have heard of. */
  OutcomeUnknownException(String message) {
    super(message);
    this.path = null;
    this.token = null;
  }

  OutcomeUnknownException(String path, String token, Throwable cause) {
    super(
        "it is unknown whether " + path + " was created: delete nothing, and resolve the token " + token
            + (cause == null ? "" : " (" + cause.getMessage() + ")"),
        cause);
    this.path = path;
    this.token = token;
  }

  /** The name, or null. */
  public String getPath() {
    return path;
  }

  /** The creation's UUID, or null. */
  public String getToken() {
    return token;
  }
}

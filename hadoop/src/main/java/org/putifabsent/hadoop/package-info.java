/**
 * Hands the creation of guarded names to the coordination service; everything else is the wrapped filesystem's.
 *
 * <p>Nothing is decided here: which names need be asked about, whether one is guarded, who creates it and which
 * exception a refusal is are all the service's answers.
 */
package org.putifabsent.hadoop;

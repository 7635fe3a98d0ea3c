package dev.colocation.spark.cluster;

import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.spark.QueryContext;
import org.apache.spark.sql.AnalysisException;
import scala.Option;
import scala.collection.immutable.Map.Map1;

/**
 * A statement that is refused when it is planned. The message tells users what is wrong and what to do.
 *
 * <p>Failures of changes are {@link WriteException}s: Spark, and so PySpark, has one type for errors of analysis and another one for
 * errors of execution, and shows other types with a Java stack.
 *
 * <p>The condition, which programs may ask for, is the reason with which the message begins, if it has one.
 */
public final class ColocationException extends AnalysisException {
  private static final long serialVersionUID = 1L;

  private static final Pattern REASON = Pattern.compile("([A-Z][A-Za-z]+): ");
  private static final String WITHOUT_REASON = "Refused";

  public ColocationException(String message) {
    this(message, null);
  }

  public ColocationException(String message, Throwable cause) {
    super(message, Option.empty(), Option.empty(), Option.apply(cause), Option.apply(condition(message)),
        new Map1<>("message", message), new QueryContext[0]);
  }

  private static String condition(String message) {
    Matcher reason = REASON.matcher(message);
    return reason.lookingAt() ? reason.group(1) : WITHOUT_REASON;
  }

  /** The SQL state of data source errors. A shell of Spark 4.3 prints Java's stack for errors without one. */
  @Override
  public String getSqlState() {
    return "KD000";
  }

  /** Without the class name, since a Thrift server shows it to users. */
  @Override
  public String toString() {
    return getMessage();
  }

  /** Throws it from methods that declare no checked exceptions; Spark's callers are in Scala, which has none. */
  public RuntimeException unchecked() {
    return unchecked(this);
  }

  /** A definition or change that no ColocatedTable can have. */
  public static RuntimeException notPossible(String what) {
    return new ColocationException("not possible for a ColocatedTable: " + what).unchecked();
  }

  /** Throws any exception unchanged where no checked exception is allowed. */
  public static RuntimeException unchecked(Throwable error) {
    return ColocationException.<RuntimeException>thrown(error);
  }

  @SuppressWarnings("unchecked")
  private static <E extends Throwable> E thrown(Throwable error) throws E {
    throw (E) error;
  }
}

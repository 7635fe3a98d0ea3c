package dev.colocation.spark.catalog;

import org.apache.spark.QueryContext;
import org.apache.spark.sql.AnalysisException;
import scala.Option;
import scala.collection.immutable.Map$;

/** What users are told instead of a plan: what is wrong and what to do. */
public final class ColocationException extends AnalysisException {
  private static final long serialVersionUID = 1L;

  ColocationException(String message) {
    this(message, null);
  }

  ColocationException(String message, Throwable cause) {
    super(message, Option.empty(), Option.empty(), Option.apply(cause), Option.empty(), Map$.MODULE$.empty(),
        new QueryContext[0]);
  }

  /** For methods that may not throw checked exceptions: Spark's callers are Scala, which knows none. */
  RuntimeException unchecked() {
    return unchecked(this);
  }

  /** Throws any error in its own words where no checked exception is allowed. */
  static RuntimeException unchecked(Throwable error) {
    return ColocationException.<RuntimeException>thrown(error);
  }

  @SuppressWarnings("unchecked")
  private static <E extends Throwable> E thrown(Throwable error) throws E {
    throw (E) error;
  }
}

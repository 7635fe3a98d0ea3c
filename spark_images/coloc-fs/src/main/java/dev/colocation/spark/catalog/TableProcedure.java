package dev.colocation.spark.catalog;

import dev.colocation.spark.cluster.ColocationException;
import java.util.Iterator;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.catalog.procedures.BoundProcedure;
import org.apache.spark.sql.connector.catalog.procedures.ProcedureParameter;
import org.apache.spark.sql.connector.catalog.procedures.UnboundProcedure;
import org.apache.spark.sql.connector.read.LocalScan;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.types.StructType;

/**
 * A procedure that answers with one row.
 *
 * @param given its parameters, in order
 */
record TableProcedure(String name, String description, List<ProcedureParameter> given, Body body)
    implements UnboundProcedure, BoundProcedure {

  /** What it does. */
  interface Body {
    Answer call(InternalRow input) throws Exception;
  }

  /** One row. */
  record Answer(StructType readSchema, InternalRow[] rows) implements LocalScan {
    Answer(StructType schema, Object... values) {
      this(schema, new InternalRow[] {new GenericInternalRow(values)});
    }
  }

  @Override
  public BoundProcedure bind(StructType input) {
    return this;
  }

  @Override
  public ProcedureParameter[] parameters() {
    return given.toArray(ProcedureParameter[]::new);
  }

  @Override
  public boolean isDeterministic() {
    return false;
  }

  /** Errors keep their words: Spark's callers are Scala, which knows no checked exceptions. */
  @Override
  public Iterator<Scan> call(InternalRow input) {
    try {
      return List.<Scan>of(body.call(input)).iterator();
    } catch (Exception error) {
      throw ColocationException.unchecked(error);
    }
  }
}

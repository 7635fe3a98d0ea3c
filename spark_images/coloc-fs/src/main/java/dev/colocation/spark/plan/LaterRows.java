package dev.colocation.spark.plan;

import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.sql.vectorized.ColumnarMap;
import org.apache.spark.unsafe.types.UTF8String;

/** A column without its first rows. It owns nothing: the scan closes the column. */
final class LaterRows extends ColumnVector {
  private final ColumnVector all;
  private final int first;

  LaterRows(ColumnVector all, int first) {
    super(all.dataType());
    this.all = all;
    this.first = first;
  }

  @Override
  public void close() {}

  @Override
  public boolean hasNull() {
    return all.hasNull();
  }

  /** An upper bound, which Spark only compares with zero. */
  @Override
  public int numNulls() {
    return all.numNulls();
  }

  @Override
  public boolean isNullAt(int row) {
    return all.isNullAt(first + row);
  }

  @Override
  public boolean getBoolean(int row) {
    return all.getBoolean(first + row);
  }

  @Override
  public byte getByte(int row) {
    return all.getByte(first + row);
  }

  @Override
  public short getShort(int row) {
    return all.getShort(first + row);
  }

  @Override
  public int getInt(int row) {
    return all.getInt(first + row);
  }

  @Override
  public long getLong(int row) {
    return all.getLong(first + row);
  }

  @Override
  public float getFloat(int row) {
    return all.getFloat(first + row);
  }

  @Override
  public double getDouble(int row) {
    return all.getDouble(first + row);
  }

  @Override
  public ColumnarArray getArray(int row) {
    return all.getArray(first + row);
  }

  @Override
  public ColumnarMap getMap(int row) {
    return all.getMap(first + row);
  }

  @Override
  public Decimal getDecimal(int row, int precision, int scale) {
    return all.getDecimal(first + row, precision, scale);
  }

  @Override
  public UTF8String getUTF8String(int row) {
    return all.getUTF8String(first + row);
  }

  @Override
  public byte[] getBinary(int row) {
    return all.getBinary(first + row);
  }

  @Override
  public ColumnVector getChild(int ordinal) {
    return new LaterRows(all.getChild(ordinal), first);
  }
}

package dev.colocation.spark.cluster;

import java.util.Locale;
import java.util.regex.Pattern;
import org.apache.spark.sql.connector.catalog.Identifier;

/** Names of objects, as {@code model/names.py} defines them. */
public final class Names {
  /** Names of Kubernetes objects; a request's path contains no others. */
  private static final Pattern OBJECT = Pattern.compile("[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?");

  /** Begins Spark's names of tables that belong to Auto CDC of Declarative Pipelines. */
  public static final String AUTO_CDC = "__spark_autocdc_";

  private static final int UID_DIGITS = 8;
  private static final int PRIVATE_GROUP_CHARACTERS = 54;

  private Names() {}

  /** A group's namespace and name. */
  public record GroupKey(String namespace, String name) {
    @Override
    public String toString() {
      return namespace + "/" + name;
    }

    /** The value of {@code colocateWith} for the group in namespace {@code table}. */
    public String referenceFrom(String table) {
      return namespace.equals(table) ? name : toString();
    }

    /** The ConfigMap {@code <group>-spark} where pods of a namespace can mount it. */
    public String configMapIn(String other) {
      return namespace.equals(other) ? name + "-spark" : name + "." + namespace + "-spark-shared";
    }
  }

  /** Names of columns and settings have no case in Spark. */
  public static String lowerCase(String name) {
    return name.toLowerCase(Locale.ROOT);
  }

  /**
   * The name of the object that a name in SQL stands for. Spark's names have no case; Kubernetes' names are in lower case and
   * have {@code -} where SQL, which would need quotes for it, has {@code _}, but not as the first character.
   */
  public static String ofSql(String name) {
    String lower = lowerCase(name);
    return (lower.startsWith(AUTO_CDC) ? lower.substring(2) : lower).replace('_', '-');
  }

  public static boolean isObject(String name) {
    return OBJECT.matcher(name).matches();
  }

  /** The group that a table in {@code namespace} names: {@code sales}, or {@code accounts/sales} of another namespace. */
  public static GroupKey group(String namespace, String reference) {
    int slash = reference.indexOf('/');
    return slash < 0
        ? new GroupKey(namespace, reference)
        : new GroupKey(reference.substring(0, slash), reference.substring(slash + 1));
  }

  /** The group whose map places a table's rows: the one that the table names, or its own when it names none. */
  public static GroupKey placingGroup(String namespace, String table, String uid, String reference) {
    GroupKey named = group(namespace, reference);
    return named.name().isEmpty() ? new GroupKey(namespace, privateGroup(table, uid)) : named;
  }

  /** The group of one table that is in no group. */
  public static String privateGroup(String table, String uid) {
    String start = table.substring(0, Math.min(table.length(), PRIVATE_GROUP_CHARACTERS)).replaceAll("[-.]+$", "");
    return start + "-" + shortUid(uid);
  }

  /** A table's folder in its namespace's. */
  public static String directory(String table, String uid) {
    return table + "-" + shortUid(uid);
  }

  private static String shortUid(String uid) {
    return uid.substring(0, Math.min(uid.length(), UID_DIGITS));
  }

  /** {@code a.b.c} with back quotes where SQL needs them. */
  public static String quoted(String catalog, Identifier table) {
    StringBuilder text = new StringBuilder(quoted(catalog));
    for (String part : table.namespace()) {
      text.append('.').append(quoted(part));
    }
    return text.append('.').append(quoted(table.name())).toString();
  }

  public static String quoted(String part) {
    return part.matches("[A-Za-z_][A-Za-z0-9_]*") ? part : inBackQuotes(part);
  }

  /** Quotes a name for Spark's parser, also a reserved word. */
  public static String inBackQuotes(String part) {
    return "`" + part.replace("`", "``") + "`";
  }
}

package dev.colocation.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.net.URISyntaxException;
import java.nio.file.FileSystem;
import java.nio.file.FileSystems;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.Predicate;
import java.util.stream.Stream;
import org.apache.xbean.asm9.ClassReader;
import org.apache.xbean.asm9.ClassVisitor;
import org.apache.xbean.asm9.ClassWriter;
import org.apache.xbean.asm9.FieldVisitor;
import org.apache.xbean.asm9.Handle;
import org.apache.xbean.asm9.MethodVisitor;
import org.apache.xbean.asm9.Opcodes;
import org.apache.xbean.asm9.Type;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/**
 * Classes, methods and fields that our classes name exist in the Spark on the class path, and our classes implement what it
 * declares abstract. Else the one query that needs them fails by a {@link LinkageError}: the jar is compiled once, for all Sparks.
 *
 * <p>Reads class files only. Needs all jars of a Spark: {@code scripts/test-spark-versions} runs it on each supported version.
 */
@Tag("all-jars-of-spark")
final class LinkageTest {
  /** What one version lacks, and the code that asks for the version first. */
  private static final Map<String, String> GUARDED = Map.of(
      "plan.WaitingRows calls org.apache.spark.sql.internal.SQLConf.windowExecBufferSpillSizeThreshold()J",
      "Spark 4.0 counts rows only: WaitingRows.countsBytes",
      "catalog.MissingColumns calls org.apache.spark.sql.catalyst.plans.logical.InsertIntoStatement.<init>(Lorg/apache/spark/sql/"
          + "catalyst/plans/logical/LogicalPlan;Lscala/collection/immutable/Map;Lscala/collection/immutable/Seq;Lorg/apache/spark/"
          + "sql/catalyst/plans/logical/LogicalPlan;ZZZ)V",
      "a rule on Spark 4.0 only, later ones have more parameters: MissingColumns.isSpark40");

  private final Map<String, ClassFile> read = new HashMap<>();
  private final Map<String, Set<String>> families = new HashMap<>();
  private final Set<String> missing = new TreeSet<>();

  /** A class file's declarations; members are written {@code name + descriptor}. */
  private record ClassFile(String parent, List<String> interfaces, int access, Map<String, Integer> members) {
    boolean isInterface() {
      return has(access, Opcodes.ACC_INTERFACE);
    }

    private static boolean has(int access, int flag) {
      return (access & flag) != 0;
    }
  }

  @Test
  void thisSparkHasAllThatIsNamed() throws IOException, URISyntaxException {
    Path place = Path.of(ColocFileSystem.class.getProtectionDomain().getCodeSource().getLocation().toURI());
    if (Files.isDirectory(place)) {
      checkAll(place);
    } else {
      try (FileSystem jar = FileSystems.newFileSystem(place, Map.of())) {
        checkAll(jar.getPath("/"));
      }
    }
    missing.removeAll(GUARDED.keySet());
    assertEquals(Set.of(), missing);
  }

  @Test
  void whatIsMissingIsFound() {
    ClassWriter file = new ClassWriter(0);
    file.visit(Opcodes.V17, Opcodes.ACC_PUBLIC, "some/Lacking", null, "java/lang/Object", new String[] {"java/lang/Runnable"});
    MethodVisitor code = file.visitMethod(Opcodes.ACC_PUBLIC, "all", "()V", null, null);
    code.visitMethodInsn(Opcodes.INVOKESTATIC, "java/lang/Thread", "yield", "()V", false);
    code.visitMethodInsn(Opcodes.INVOKESTATIC, "java/lang/Thread", "yield", "()I", false);
    code.visitMethodInsn(Opcodes.INVOKEVIRTUAL, "java/lang/Thread", "yield", "()V", false);
    code.visitMethodInsn(Opcodes.INVOKEVIRTUAL, "java/util/List", "size", "()I", false);
    code.visitMethodInsn(Opcodes.INVOKEINTERFACE, "java/util/List", "iterator", "()Ljava/util/Iterator;", true);
    code.visitFieldInsn(Opcodes.GETSTATIC, "java/lang/System", "out", "Ljava/io/PrintStream;");
    code.visitFieldInsn(Opcodes.GETFIELD, "java/lang/System", "out", "Ljava/io/PrintStream;");
    code.visitTypeInsn(Opcodes.NEW, "no/Such");
    file.visitEnd();
    check(file.toByteArray());
    assertEquals(
        new TreeSet<>(Set.of(
            "some.Lacking calls java.lang.Thread.yield()I", "some.Lacking calls java.lang.Thread.yield()V",
            "some.Lacking calls java.util.List.size()I", "some.Lacking implements no run()V",
            "some.Lacking names the class no.Such", "some.Lacking names the field java.lang.System.out")),
        missing);
  }

  private void checkAll(Path folder) throws IOException {
    try (Stream<Path> files = Files.walk(folder)) {
      for (Path file : files.filter(path -> path.toString().endsWith(".class")).toList()) {
        check(Files.readAllBytes(file));
      }
    }
  }

  private void check(byte[] file) {
    ClassReader reader = new ClassReader(file);
    read.put(reader.getClassName(), declarations(reader));
    reader.accept(new Names(), ClassReader.SKIP_DEBUG);
  }

  /** A class by its internal name; null where it is missing. */
  private ClassFile classFile(String name) {
    if (!read.containsKey(name)) {
      try (InputStream stream = ClassLoader.getSystemResourceAsStream(name + ".class")) {
        read.put(name, stream == null ? null : declarations(new ClassReader(stream)));
      } catch (IOException error) {
        throw new UncheckedIOException(error);
      }
    }
    return read.get(name);
  }

  private static ClassFile declarations(ClassReader reader) {
    Map<String, Integer> members = new HashMap<>();
    reader.accept(new ClassVisitor(Opcodes.ASM9) {
      @Override
      public FieldVisitor visitField(int access, String name, String descriptor, String signature, Object value) {
        members.put(name + " " + descriptor, access);
        return null;
      }

      @Override
      public MethodVisitor visitMethod(int access, String name, String descriptor, String signature, String[] exceptions) {
        members.put(name + descriptor, access);
        return null;
      }
    }, ClassReader.SKIP_CODE);
    return new ClassFile(reader.getSuperName(), List.of(reader.getInterfaces()), reader.getAccess(), members);
  }

  /** A class, the classes above it, and all interfaces; those that are missing are left out. */
  private Set<String> family(String name) {
    return families.computeIfAbsent(name, of -> {
      Set<String> found = new HashSet<>();
      collect(of, found);
      collect("java/lang/Object", found); // whose methods interfaces have, too
      return found;
    });
  }

  private void collect(String name, Set<String> found) {
    ClassFile file = name == null ? null : classFile(name);
    if (file != null && found.add(name)) {
      collect(file.parent(), found);
      file.interfaces().forEach(above -> collect(above, found));
    }
  }

  /** Looks up what one class of ours names. */
  private final class Names extends ClassVisitor {
    private String own;

    Names() {
      super(Opcodes.ASM9);
    }

    @Override
    public void visit(int version, int access, String name, String signature, String parent, String[] interfaces) {
      own = name;
      type(Type.getObjectType(parent));
      Stream.of(interfaces).map(Type::getObjectType).forEach(this::type);
      if (!ClassFile.has(access, Opcodes.ACC_ABSTRACT)) {
        unimplemented(name).forEach(method -> report("implements no " + method));
      }
    }

    /** Abstract methods of the family that no member of it has a body for. Scala's calls of a trait's parent are of no interest. */
    private Stream<String> unimplemented(String name) {
      Set<String> declared = new TreeSet<>();
      Set<String> withBody = new HashSet<>();
      family(name).forEach(above -> classFile(above).members().forEach(
          (member, access) -> (ClassFile.has(access, Opcodes.ACC_ABSTRACT) ? declared : withBody).add(member)));
      return declared.stream().filter(method -> !withBody.contains(method) && !method.contains("$$super$"));
    }

    @Override
    public FieldVisitor visitField(int access, String name, String descriptor, String signature, Object value) {
      type(Type.getType(descriptor));
      return null;
    }

    @Override
    public MethodVisitor visitMethod(int access, String name, String descriptor, String signature, String[] exceptions) {
      type(Type.getMethodType(descriptor));
      return new Code(this);
    }

    private void report(String what) {
      missing.add(own.replace('/', '.').replace(LinkageTest.class.getPackageName() + ".", "") + " " + what);
    }

    void type(Type type) {
      switch (type.getSort()) {
        case Type.METHOD -> {
          Stream.of(type.getArgumentTypes()).forEach(this::type);
          type(type.getReturnType());
        }
        case Type.ARRAY -> type(type.getElementType());
        case Type.OBJECT -> {
          if (classFile(type.getInternalName()) == null) {
            report("names the class " + type.getClassName());
          }
        }
        default -> { } // a primitive type
      }
    }

    void field(String owner, String name, String descriptor, boolean isStatic) {
      type(Type.getType(descriptor));
      type(Type.getObjectType(owner));
      if (classFile(owner) != null && !hasMember(owner, name + " " + descriptor, isStatic)) {
        report("names the field " + owner.replace('/', '.') + "." + name);
      }
    }

    void method(String owner, String name, String descriptor, boolean isStatic, boolean ofInterface) {
      type(Type.getMethodType(descriptor));
      type(Type.getObjectType(owner));
      ClassFile file = classFile(owner);
      boolean takesAnything = owner.startsWith("[") || owner.equals("java/lang/invoke/MethodHandle");
      if (file != null && !takesAnything
          && !(file.isInterface() == ofInterface && hasMember(owner, name + descriptor, isStatic))) {
        report("calls " + owner.replace('/', '.') + "." + name + descriptor);
      }
    }

    private boolean hasMember(String owner, String member, boolean isStatic) {
      Predicate<String> has = above -> {
        Integer access = classFile(above).members().get(member);
        return access != null && ClassFile.has(access, Opcodes.ACC_STATIC) == isStatic
            && (ClassFile.has(access, Opcodes.ACC_PUBLIC | Opcodes.ACC_PROTECTED) || folder(above).equals(folder(own)));
      };
      return family(owner).stream().anyMatch(has);
    }

    private static String folder(String name) {
      return name.substring(0, name.lastIndexOf('/'));
    }
  }

  /** Looks up what one method's code names. */
  private static final class Code extends MethodVisitor {
    private final Names names;

    Code(Names names) {
      super(Opcodes.ASM9);
      this.names = names;
    }

    @Override
    public void visitFieldInsn(int opcode, String owner, String name, String descriptor) {
      names.field(owner, name, descriptor, opcode == Opcodes.GETSTATIC || opcode == Opcodes.PUTSTATIC);
    }

    @Override
    public void visitMethodInsn(int opcode, String owner, String name, String descriptor, boolean ofInterface) {
      names.method(owner, name, descriptor, opcode == Opcodes.INVOKESTATIC, ofInterface);
    }

    /** Lambdas, references to methods, records' methods. */
    @Override
    public void visitInvokeDynamicInsn(String name, String descriptor, Handle maker, Object... arguments) {
      names.type(Type.getMethodType(descriptor));
      for (Object argument : arguments) {
        if (argument instanceof Handle handle && handle.getTag() > Opcodes.H_PUTSTATIC) {
          names.method(handle.getOwner(), handle.getName(), handle.getDesc(), handle.getTag() == Opcodes.H_INVOKESTATIC,
              handle.isInterface());
        } else if (argument instanceof Type type) {
          names.type(type);
        }
      }
    }

    @Override
    public void visitTypeInsn(int opcode, String type) {
      names.type(Type.getObjectType(type));
    }

    @Override
    public void visitLdcInsn(Object value) {
      if (value instanceof Type type) {
        names.type(type);
      }
    }
  }
}

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintWriter;
import java.lang.instrument.ClassFileTransformer;
import java.lang.instrument.Instrumentation;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.security.ProtectionDomain;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ConcurrentHashMap;
import java.util.jar.JarFile;
import org.apache.xbean.asm9.ClassReader;
import org.apache.xbean.asm9.ClassWriter;
import org.apache.xbean.asm9.Opcodes;
import org.apache.xbean.asm9.tree.AbstractInsnNode;
import org.apache.xbean.asm9.tree.ClassNode;
import org.apache.xbean.asm9.tree.FieldInsnNode;
import org.apache.xbean.asm9.tree.InsnList;
import org.apache.xbean.asm9.tree.InsnNode;
import org.apache.xbean.asm9.tree.LdcInsnNode;
import org.apache.xbean.asm9.tree.LineNumberNode;
import org.apache.xbean.asm9.tree.MethodNode;

/**
 * Changes our classes in a running JVM, and notes the lines that it runs.
 *
 * <p>{@code -javaagent:agent.jar=FOLDER} writes {@code FOLDER/<pid>.port}. On this port of loopback it answers {@code
 * lines} (the lines run since the last time, {@code class:line} each, then an empty line) and {@code mutate
 * CLASS#NUMBER} or {@code mutate none}. A JVM begins with the mutant in {@code FOLDER/mutant}, and leaves its lines in
 * {@code FOLDER/<pid>.lines} when it ends. {@code java Agent JAR} prints all mutants of a jar.
 */
public final class Agent implements ClassFileTransformer {
    private static final String OURS = "dev/colocation/spark/";
    private static final int MOST_LINES = 1 << 17;

    /** Of each line's number, whether it ran; changed classes write to it. */
    public static final boolean[] RAN = new boolean[MOST_LINES];

    private static final List<String> LINES = new ArrayList<>();
    private static final ConcurrentHashMap<String, Integer> NUMBERS = new ConcurrentHashMap<>();

    private final Instrumentation jvm;
    private volatile String mutant;

    private Agent(Instrumentation jvm, String mutant) {
        this.jvm = jvm;
        this.mutant = mutant;
    }

    public static void main(String[] arguments) throws IOException {
        try (JarFile jar = new JarFile(arguments[0])) {
            for (String name : jar.stream().map(Object::toString).sorted().toList()) {
                if (name.startsWith(OURS) && name.endsWith(".class")) {
                    ClassReader reader = new ClassReader(jar.getInputStream(jar.getJarEntry(name)));
                    reader.accept(new Mutants(null, reader.getClassName(), -1, System.out::println), 0);
                }
            }
        }
    }

    public static void premain(String argument, Instrumentation jvm) throws IOException {
        Path folder = Path.of(argument);
        Path chosen = folder.resolve("mutant");
        Agent agent = new Agent(jvm, Files.exists(chosen) ? Files.readString(chosen) : "none");
        jvm.addTransformer(agent, true);
        String pid = String.valueOf(ProcessHandle.current().pid());
        Runtime.getRuntime().addShutdownHook(new Thread(() -> agent.leaveLines(folder.resolve(pid + ".lines"))));
        ServerSocket server = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
        Path written = Files.writeString(folder.resolve(pid + ".new"), String.valueOf(server.getLocalPort()));
        Files.move(written, folder.resolve(pid + ".port"), StandardCopyOption.ATOMIC_MOVE);
        Thread thread = new Thread(() -> agent.serve(server), "mutants");
        thread.setDaemon(true);
        thread.start();
    }

    private void serve(ServerSocket server) {
        while (true) {
            try (Socket client = server.accept();
                    PrintWriter answer = new PrintWriter(client.getOutputStream(), true)) {
                String order = new BufferedReader(new InputStreamReader(client.getInputStream())).readLine();
                if (order != null && order.startsWith("mutate ")) {
                    become(order.substring("mutate ".length()));
                } else if (order != null) {
                    takeLines().forEach(answer::println);
                }
                answer.println();
            } catch (Exception failure) {
                failure.printStackTrace();
            }
        }
    }

    private void become(String chosen) throws Exception {
        String before = mutant;
        mutant = chosen;
        for (Class<?> loaded : jvm.getAllLoadedClasses()) {
            String name = loaded.getName().replace('.', '/');
            if (before.startsWith(name + "#") || chosen.startsWith(name + "#")) {
                jvm.retransformClasses(loaded);
            }
        }
    }

    private static synchronized List<String> takeLines() {
        List<String> ran = new ArrayList<>();
        for (int number = 0; number < LINES.size(); number++) {
            if (RAN[number]) {
                RAN[number] = false;
                ran.add(LINES.get(number));
            }
        }
        return ran;
    }

    private void leaveLines(Path file) {
        try {
            Files.write(file, takeLines());
        } catch (IOException failure) {
            failure.printStackTrace();
        }
    }

    private static synchronized int numberOf(String line) {
        return NUMBERS.computeIfAbsent(line, added -> {
            LINES.add(added);
            return LINES.size() - 1;
        });
    }

    @Override
    public byte[] transform(
            ClassLoader loader, String name, Class<?> before, ProtectionDomain domain, byte[] bytes) {
        if (name == null || !name.startsWith(OURS)) {
            return null;
        }
        try {
            ClassReader reader = new ClassReader(bytes);
            ClassWriter writer = new ClassWriter(reader, ClassWriter.COMPUTE_MAXS);
            String current = mutant;
            int number = current.startsWith(name + "#") ? Integer.parseInt(current.substring(name.length() + 1)) : -1;
            ClassNode changed = new ClassNode();
            reader.accept(new Mutants(changed, name, number, ignored -> {}), 0);
            addProbes(changed);
            changed.accept(writer);
            return writer.toByteArray();
        } catch (RuntimeException failure) {
            failure.printStackTrace();
            throw failure;
        }
    }

    /** Has each line note that it ran, at its first instruction, and so after the frame that may be there. */
    private static void addProbes(ClassNode node) {
        for (MethodNode method : node.methods) {
            for (AbstractInsnNode at : method.instructions.toArray()) {
                if (at instanceof LineNumberNode line) {
                    AbstractInsnNode first = line;
                    while (first.getOpcode() < 0) {
                        first = first.getNext();
                    }
                    InsnList probe = probe(numberOf(node.name + ":" + line.line));
                    if (first.getOpcode() == Opcodes.NEW) { // frames name its place
                        method.instructions.insert(first, probe);
                    } else {
                        method.instructions.insertBefore(first, probe);
                    }
                }
            }
        }
    }

    private static InsnList probe(int number) {
        InsnList probe = new InsnList();
        probe.add(new FieldInsnNode(Opcodes.GETSTATIC, "Agent", "RAN", "[Z"));
        probe.add(new LdcInsnNode(number));
        probe.add(new InsnNode(Opcodes.ICONST_1));
        probe.add(new InsnNode(Opcodes.BASTORE));
        return probe;
    }
}

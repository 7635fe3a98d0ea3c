import static org.apache.xbean.asm9.Opcodes.*;

import java.util.Map;
import java.util.Set;
import java.util.function.Consumer;
import org.apache.xbean.asm9.ClassVisitor;
import org.apache.xbean.asm9.Label;
import org.apache.xbean.asm9.MethodVisitor;
import org.apache.xbean.asm9.Type;

/**
 * Finds the places of a class that can be changed, in their order, and changes the chosen one.
 *
 * <p>Conditions are inverted, their bounds moved by one, or always hold; answers are turned, or become one more, empty
 * or null; calls for their effect are left out; sums become differences. Stacks keep their form, so frames stay right.
 */
final class Mutants extends ClassVisitor {
    private static final Map<Integer, Integer> INVERSE = Map.ofEntries(
            Map.entry(IFEQ, IFNE), Map.entry(IFNE, IFEQ), Map.entry(IFLT, IFGE), Map.entry(IFGE, IFLT),
            Map.entry(IFGT, IFLE), Map.entry(IFLE, IFGT), Map.entry(IFNULL, IFNONNULL), Map.entry(IFNONNULL, IFNULL),
            Map.entry(IF_ICMPEQ, IF_ICMPNE), Map.entry(IF_ICMPNE, IF_ICMPEQ), Map.entry(IF_ICMPLT, IF_ICMPGE),
            Map.entry(IF_ICMPGE, IF_ICMPLT), Map.entry(IF_ICMPGT, IF_ICMPLE), Map.entry(IF_ICMPLE, IF_ICMPGT),
            Map.entry(IF_ACMPEQ, IF_ACMPNE), Map.entry(IF_ACMPNE, IF_ACMPEQ));
    private static final Map<Integer, Integer> NEXT_BOUND = Map.of(
            IFLT, IFLE, IFLE, IFLT, IFGT, IFGE, IFGE, IFGT,
            IF_ICMPLT, IF_ICMPLE, IF_ICMPLE, IF_ICMPLT, IF_ICMPGT, IF_ICMPGE, IF_ICMPGE, IF_ICMPGT);
    private static final Map<Integer, Integer> REVERSE = Map.of(
            IADD, ISUB, ISUB, IADD, LADD, LSUB, LSUB, LADD, DADD, DSUB, DSUB, DADD,
            IMUL, IADD, LMUL, LADD, DMUL, DADD);
    private static final Set<String> SILENT = Set.of("toString", "hashCode", "equals", "<clinit>", "values", "valueOf");

    private final String name;
    private final int chosen;
    private final Consumer<String> found;
    private int places;

    Mutants(ClassVisitor next, String name, int chosen, Consumer<String> found) {
        super(ASM9, next);
        this.name = name;
        this.chosen = chosen;
        this.found = found;
    }

    @Override
    public MethodVisitor visitMethod(int access, String method, String type, String generic, String[] thrown) {
        MethodVisitor next = super.visitMethod(access, method, type, generic, thrown);
        return (access & ACC_BRIDGE) != 0 || SILENT.contains(method) ? next : new Method(next, method, type);
    }

    private final class Method extends MethodVisitor {
        private final String method;
        private final Type result;
        private int line;
        private boolean isEmpty;

        Method(MethodVisitor next, String method, String type) {
            super(ASM9, next);
            this.method = method;
            this.result = Type.getReturnType(type);
        }

        private boolean isChosen(String change) {
            if (line == 0) {
                return false; // what the compiler made
            }
            found.accept(name + "#" + places + "\t" + method + "\t" + line + "\t" + change);
            return places++ == chosen;
        }

        @Override
        public void visitLineNumber(int number, Label start) {
            line = number;
            super.visitLineNumber(number, start);
        }

        @Override
        public void visitLabel(Label label) {
            isEmpty = false;
            super.visitLabel(label);
        }

        @Override
        public void visitJumpInsn(int code, Label to) {
            if (!INVERSE.containsKey(code)) {
                super.visitJumpInsn(code, to);
                return;
            }
            if (isChosen("condition inverted")) {
                super.visitJumpInsn(INVERSE.get(code), to);
            } else if (isChosen("condition always as compiled")) {
                jumpAlways(code, IFEQ, to);
            } else if (isChosen("condition never as compiled")) {
                jumpAlways(code, IFNE, to);
            } else if (NEXT_BOUND.containsKey(code) && isChosen("bound moved by one")) {
                super.visitJumpInsn(NEXT_BOUND.get(code), to);
            } else {
                super.visitJumpInsn(code, to);
            }
        }

        private void jumpAlways(int code, int ofZero, Label to) {
            boolean isOfTwo = code >= IF_ICMPEQ && code <= IF_ACMPNE;
            super.visitInsn(isOfTwo ? POP2 : POP);
            super.visitInsn(ICONST_0);
            super.visitJumpInsn(ofZero, to);
        }

        @Override
        public void visitInsn(int code) {
            if (code == IRETURN && isChosen(result == Type.BOOLEAN_TYPE ? "answer turned" : "answer one more")) {
                super.visitInsn(ICONST_1);
                super.visitInsn(result == Type.BOOLEAN_TYPE ? IXOR : IADD);
            } else if (code == LRETURN && isChosen("answer one more")) {
                super.visitInsn(LCONST_1);
                super.visitInsn(LADD);
            } else if (code == ARETURN && !isEmpty && isChosen("answer empty or null")) {
                super.visitInsn(POP);
                pushEmpty(result);
            } else if (REVERSE.containsKey(code) && isChosen("another operation")) {
                super.visitInsn(REVERSE.get(code));
                return;
            }
            isEmpty = code == ACONST_NULL;
            super.visitInsn(code);
        }

        private void pushEmpty(Type type) {
            switch (type.getInternalName()) {
                case "java/lang/String" -> super.visitLdcInsn("");
                case "java/util/List" -> empty("java/util/List", "of", type);
                case "java/util/Map" -> empty("java/util/Map", "of", type);
                case "java/util/Set" -> empty("java/util/Set", "of", type);
                case "java/util/Optional" -> empty("java/util/Optional", "empty", type);
                default -> super.visitInsn(ACONST_NULL);
            }
        }

        private void empty(String owner, String factory, Type type) {
            boolean isInterface = !owner.endsWith("Optional");
            super.visitMethodInsn(INVOKESTATIC, owner, factory, "()" + type.getDescriptor(), isInterface);
        }

        @Override
        public void visitMethodInsn(int code, String owner, String called, String type, boolean isInterface) {
            isEmpty = type.startsWith("()") && (called.equals("of") || called.equals("empty"))
                    || called.equals("unchecked"); // throws what it seems to give back
            boolean isEffect = Type.getReturnType(type) == Type.VOID_TYPE && !called.equals("<init>");
            if (!isEffect || owner.contains("Logger") || !isChosen("call of " + called + " left out")) {
                super.visitMethodInsn(code, owner, called, type, isInterface);
                return;
            }
            Type[] arguments = Type.getArgumentTypes(type);
            for (int place = arguments.length - 1; place >= 0; place--) {
                super.visitInsn(arguments[place].getSize() == 2 ? POP2 : POP);
            }
            if (code != INVOKESTATIC) {
                super.visitInsn(POP);
            }
        }
    }
}

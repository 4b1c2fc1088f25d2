import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.Timer;
import java.util.TimerTask;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;

/**
 * What a leader of Kafka's own client does in a join, timed: decode every member's subscription, assign, encode every
 * member's assignment. The first call is a cold JVM's; the others follow in the same process until the budget is spent.
 *
 * <p>Arguments: assignor name, case file, file for the first answer, limit of a call and budget in seconds. The files are
 * those of benchmarks/peers.py. Prints one JSON line. Run by {@code java -cp JARS Leader.java ...}; needs a JDK.
 */
public final class Leader {
    public static void main(String[] arguments) throws IOException {
        ConsumerPartitionAssignor assignor = switch (arguments[0]) {
            case "sticky" -> new StickyAssignor();
            case "cooperative-sticky" -> new CooperativeStickyAssignor();
            case "range" -> new RangeAssignor();
            case "roundrobin" -> new RoundRobinAssignor();
            default -> throw new IllegalArgumentException(arguments[0]);
        };
        double limitSeconds = Double.parseDouble(arguments[3]);
        double budgetSeconds = Double.parseDouble(arguments[4]);
        Map<String, byte[]> members = new LinkedHashMap<>();
        Cluster cluster = read(Path.of(arguments[1]), members);

        var threads = ManagementFactory.getThreadMXBean();
        List<String> cpu = new ArrayList<>();
        List<String> wall = new ArrayList<>();
        for (double spent = 0; cpu.isEmpty() || spent < budgetSeconds; ) {
            System.gc();
            Timer watch = giveUpAfter(limitSeconds);
            long beganCpu = threads.getCurrentThreadCpuTime();
            long began = System.nanoTime();
            Map<String, ByteBuffer> answer = lead(assignor, cluster, members);
            double milliseconds = (System.nanoTime() - began) / 1e6;
            double cpuMilliseconds = (threads.getCurrentThreadCpuTime() - beganCpu) / 1e6;
            watch.cancel();
            if (cpu.isEmpty()) {
                write(Path.of(arguments[2]), answer);
            }
            cpu.add(String.format(Locale.ROOT, "%.4f", cpuMilliseconds));
            wall.add(String.format(Locale.ROOT, "%.4f", milliseconds));
            spent += milliseconds / 1000;
        }
        System.out.println("{\"cpu_ms\": " + cpu + ", \"wall_ms\": " + wall + "}");
    }

    private static Map<String, ByteBuffer> lead(
            ConsumerPartitionAssignor assignor, Cluster cluster, Map<String, byte[]> members) {
        Map<String, Subscription> subscriptions = new HashMap<>();
        members.forEach((id, data) ->
                subscriptions.put(id, ConsumerProtocol.deserializeSubscription(ByteBuffer.wrap(data))));
        Map<String, Assignment> assignments =
                assignor.assign(cluster, new GroupSubscription(subscriptions)).groupAssignment();
        Map<String, ByteBuffer> answer = new HashMap<>();
        assignments.forEach((id, assignment) -> answer.put(id, ConsumerProtocol.serializeAssignment(assignment)));
        return answer;
    }

    private static Timer giveUpAfter(double seconds) {
        Timer timer = new Timer(true);
        timer.schedule(new TimerTask() {
            @Override
            public void run() {
                System.out.printf(Locale.ROOT, "{\"error\": \"no result in %.0f s\"}%n", seconds);
                System.out.flush();
                Runtime.getRuntime().halt(0);
            }
        }, (long) (seconds * 1000));
        return timer;
    }

    private static Cluster read(Path file, Map<String, byte[]> members) throws IOException {
        try (var in = new DataInputStream(new BufferedInputStream(Files.newInputStream(file)))) {
            int racks = in.readInt();
            int replicas = in.readInt();
            Node[] nodes = new Node[Math.max(racks, 1)];
            for (int n = 0; n < nodes.length; n++) {
                nodes[n] = new Node(n, "localhost", 1, racks > 0 ? "rack" + n : null);
            }
            List<PartitionInfo> partitions = new ArrayList<>();
            int topics = in.readInt();
            for (int t = 0; t < topics; t++) {
                String topic = in.readUTF();
                int count = in.readInt();
                for (int p = 0; p < count; p++) {
                    Node[] on = new Node[replicas];
                    for (int r = 0; r < replicas; r++) {
                        on[r] = nodes[(t + p + r) % nodes.length];
                    }
                    partitions.add(new PartitionInfo(topic, p, on[0], on, on));
                }
            }
            for (int left = in.readInt(); left > 0; left--) {
                String id = in.readUTF();
                byte[] data = new byte[in.readInt()];
                in.readFully(data);
                members.put(id, data);
            }
            return new Cluster("benchmark", List.of(nodes), partitions, Set.of(), Set.of());
        }
    }

    private static void write(Path file, Map<String, ByteBuffer> answer) throws IOException {
        try (var out = new DataOutputStream(new BufferedOutputStream(Files.newOutputStream(file)))) {
            out.writeInt(answer.size());
            for (var entry : answer.entrySet()) {
                byte[] data = new byte[entry.getValue().remaining()];
                entry.getValue().duplicate().get(data);
                out.writeUTF(entry.getKey());
                out.writeInt(data.length);
                out.write(data);
            }
        }
    }
}

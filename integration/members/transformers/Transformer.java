import java.io.FileInputStream;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.function.Supplier;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.errors.WakeupException;

/**
 * Java's member that consumes, transforms and produces in transactions, and prints a JSON object a line as the members of
 * {@code kafka_assignors.integration.members.transformers.confluent} do. Run by {@code java -cp JARS Transformer.java SETTINGS}; needs a
 * JDK. SETTINGS is a properties file: {@code consumer.}, {@code producer.} and {@code app.} (topics, output, author, work.ms)
 * settings.
 */
public final class Transformer implements ConsumerRebalanceListener {
    private static final Duration POLL = Duration.ofMillis(100);
    private static final Duration RETRIES = Duration.ofSeconds(20); // the time limit of a transaction
    private final Properties app;
    private final KafkaConsumer<byte[], byte[]> consumer;
    private final KafkaProducer<byte[], byte[]> producer;
    private int transactions;

    private Transformer(Properties all) {
        app = under(all, "app.");
        consumer = new KafkaConsumer<>(under(all, "consumer."));
        producer = new KafkaProducer<>(under(all, "producer."));
    }

    public static void main(String[] arguments) throws Exception {
        Properties all = new Properties();
        try (InputStream in = new FileInputStream(arguments[0])) {
            all.load(in);
        }
        Transformer member = new Transformer(all);
        CountDownLatch ended = new CountDownLatch(1);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            member.consumer.wakeup();
            try {
                ended.await();
            } catch (InterruptedException interrupted) {
                Thread.currentThread().interrupt();
            }
        }));
        try {
            member.run();
        } catch (WakeupException told) {
            // the signal to leave
        } catch (RuntimeException fatal) {
            fatal.printStackTrace();
            ended.countDown();
            Runtime.getRuntime().halt(1);
        }
        member.consumer.close();
        member.producer.close(Duration.ofSeconds(5));
        say("shutdown_complete", "");
        ended.countDown();
    }

    private void run() {
        retried(() -> {
            producer.initTransactions();
            return null;
        });
        consumer.subscribe(List.of(app.getProperty("topics").split(",")), this);
        say("startup_complete", "");
        while (true) {
            ConsumerRecords<byte[], byte[]> records = consumer.poll(POLL);
            if (!records.isEmpty()) {
                transform(records);
            }
        }
    }

    private void transform(ConsumerRecords<byte[], byte[]> records) {
        ConsumerGroupMetadata membership = consumer.groupMetadata();
        int number = ++transactions;
        Map<TopicPartition, OffsetAndMetadata> ends = new HashMap<>();
        for (ConsumerRecord<byte[], byte[]> each : records) {
            ends.put(new TopicPartition(each.topic(), each.partition()), new OffsetAndMetadata(each.offset() + 1));
            say("record_data", String.format(",\"key\":%s,\"value\":%s,\"topic\":%s,\"partition\":%d,\"offset\":%d",
                text(each.key()), text(each.value()), quoted(each.topic()), each.partition(), each.offset()));
        }
        say("records_taken", "");
        byte[] author = app.getProperty("author").replace("\"NUMBER\"", String.valueOf(number)).getBytes(StandardCharsets.UTF_8);
        String told = ",\"offsets\":" + offsets(ends) + ",\"transaction\":" + number;
        try {
            producer.beginTransaction();
            for (ConsumerRecord<byte[], byte[]> each : records) {
                ProducerRecord<byte[], byte[]> output = new ProducerRecord<>(app.getProperty("output"), each.key(), each.value());
                output.headers().add("author", author);
                producer.send(output);
            }
            work();
            say("transaction_ending", told);
            producer.sendOffsetsToTransaction(ends, membership);
            producer.commitTransaction();
        } catch (ProducerFencedException fenced) {
            throw fenced;
        } catch (KafkaException refused) {
            say("offsets_committed", told + ",\"success\":false,\"error\":" + quoted(String.valueOf(refused)));
            retried(() -> {
                producer.abortTransaction();
                return null;
            });
            rewind(ends.keySet());
            return;
        }
        say("offsets_committed", told + ",\"success\":true");
    }

    private void rewind(Set<TopicPartition> taken) {
        Set<TopicPartition> mine = new HashSet<>(taken);
        mine.retainAll(consumer.assignment());
        Map<TopicPartition, OffsetAndMetadata> back = new HashMap<>();
        retried(() -> consumer.committed(mine)).forEach((at, known) -> back.put(at, known == null ? new OffsetAndMetadata(0) : known));
        back.forEach((at, known) -> consumer.seek(at, known.offset()));
        say("rewound", ",\"offsets\":" + offsets(back));
    }

    /** Calls, and again after errors that Kafka calls retriable, such as a time limit. */
    private static <T> T retried(Supplier<T> call) {
        long deadline = System.nanoTime() + RETRIES.toNanos();
        while (true) {
            try {
                return call.get();
            } catch (RetriableException again) {
                if (System.nanoTime() > deadline) {
                    throw again;
                }
                say("error", ",\"error\":" + quoted(again.getClass().getSimpleName()) + ",\"message\":" + quoted(String.valueOf(again)));
            }
        }
    }

    private void work() {
        try {
            Thread.sleep(Long.parseLong(app.getProperty("work.ms", "0")));
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        say("partitions_assigned", ",\"partitions\":" + places(partitions));
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        say("partitions_revoked", ",\"partitions\":" + places(partitions));
    }

    @Override
    public void onPartitionsLost(Collection<TopicPartition> partitions) {
        say("partitions_lost", ",\"partitions\":" + places(partitions));
    }

    private static Properties under(Properties all, String prefix) {
        Properties found = new Properties();
        for (String name : all.stringPropertyNames()) {
            if (name.startsWith(prefix)) {
                found.setProperty(name.substring(prefix.length()), all.getProperty(name));
            }
        }
        return found;
    }

    private static void say(String name, String fields) {
        System.out.println("{\"timestamp\":" + System.currentTimeMillis() + ",\"name\":\"" + name + "\"" + fields + "}");
        System.out.flush();
    }

    private static String places(Collection<TopicPartition> partitions) {
        List<String> rows = new ArrayList<>();
        for (TopicPartition at : partitions) {
            rows.add("{\"topic\":" + quoted(at.topic()) + ",\"partition\":" + at.partition() + "}");
        }
        return "[" + String.join(",", rows) + "]";
    }

    private static String offsets(Map<TopicPartition, OffsetAndMetadata> ends) {
        List<String> rows = new ArrayList<>();
        ends.forEach((at, end) -> rows.add(
            "{\"topic\":" + quoted(at.topic()) + ",\"partition\":" + at.partition() + ",\"offset\":" + end.offset() + "}"));
        return "[" + String.join(",", rows) + "]";
    }

    private static String text(byte[] data) {
        return data == null ? "null" : quoted(new String(data, StandardCharsets.UTF_8));
    }

    private static String quoted(String text) {
        StringBuilder made = new StringBuilder("\"");
        for (char each : text.toCharArray()) {
            if (each == '"' || each == '\\') {
                made.append('\\').append(each);
            } else if (each < ' ') {
                made.append(String.format("\\u%04x", (int) each));
            } else {
                made.append(each);
            }
        }
        return made.append('"').toString();
    }
}

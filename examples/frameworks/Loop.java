import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.errors.WakeupException;

/** Java's clients: the loop of KafkaConsumer's Javadoc, "Automatic Offset Committing", at their defaults. */
public class Loop {
    public static void main(String[] args) {
        Properties settings = new Properties();
        settings.setProperty("bootstrap.servers", System.getenv("BROKER"));
        settings.setProperty("group.id", System.getenv("GROUP"));
        settings.setProperty("auto.offset.reset", "earliest");
        for (String half : List.of("key", "value")) {
            settings.setProperty(half + ".serializer", "org.apache.kafka.common.serialization.StringSerializer");
            settings.setProperty(half + ".deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        }
        KafkaProducer<String, String> producer = new KafkaProducer<>(settings);
        KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings);
        Thread loop = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> { // on SIGTERM
            consumer.wakeup();
            try {
                loop.join();
            } catch (InterruptedException ignored) {
            }
        }));
        consumer.subscribe(List.of(System.getenv("TOPIC")));
        try {
            while (true)
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(100)))
                    producer.send(new ProducerRecord<>(System.getenv("OUTPUT"), record.value())); // one for each order
        } catch (WakeupException stopping) {
        } finally {
            consumer.close();
            producer.close();
        }
    }
}

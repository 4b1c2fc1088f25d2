// KafkaJS, as in the example of its documentation: start it with `node kafkajs.js`.
const { Kafka } = require("kafkajs");

const kafka = new Kafka({ brokers: [process.env.BROKER] });
const consumer = kafka.consumer({ groupId: process.env.GROUP });
const producer = kafka.producer();

// One output for each order.
async function handle({ message }) {
  await producer.send({ topic: process.env.OUTPUT, messages: [{ value: message.value }] });
}

async function run() {
  await producer.connect();
  await consumer.connect();
  await consumer.subscribe({ topic: process.env.TOPIC, fromBeginning: true });
  await consumer.run({ eachMessage: handle });
}

process.once("SIGTERM", async () => {
  await consumer.disconnect();
  await producer.disconnect();
});
run();

// Asks KafkaJS's own partitioners: npm install kafkajs@2.2.4, then
// node kafkajs_keys.js < partitioners/librdkafka.jsonl > partitioners/kafkajs.jsonl
//
// Each input line has a key (hex) and, in "consistent", the numbers of partitions. Each output line has the key and, per
// preset of ours, number -> partition.
const { Partitioners } = require('kafkajs')

const presets = { kafkajs: Partitioners.DefaultPartitioner(), 'kafkajs-legacy': Partitioners.LegacyPartitioner() }

for (const line of require('fs').readFileSync(0, 'utf8').split('\n').filter(Boolean)) {
  const { key, consistent } = JSON.parse(line)
  const answer = { key }
  for (const [preset, partitioner] of Object.entries(presets)) {
    answer[preset] = {}
    for (const count of Object.keys(consistent)) {
      const partitionMetadata = Array.from({ length: Number(count) }, (_, partitionId) => ({ partitionId, leader: 1 }))
      const message = { key: Buffer.from(key, 'hex') }
      answer[preset][count] = partitioner({ topic: 't', partitionMetadata, message })
    }
  }
  console.log(JSON.stringify(answer))
}

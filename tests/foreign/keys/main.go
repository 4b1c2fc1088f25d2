// Asks the Go clients' own partitioners for the partition of keys: keys < partitioners/librdkafka.jsonl > partitioners/go_clients.jsonl
//
// Each input line has a key (hex) and, in "consistent", the numbers of partitions. Each output line has the key and, per
// preset of ours, number -> partition.
package main

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"os"
	"strconv"

	"github.com/IBM/sarama"
	segmentio "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kgo"
)

type place func(key []byte, n int) int

func franz(partitioner kgo.Partitioner) place {
	return func(key []byte, n int) int {
		return partitioner.ForTopic("t").Partition(&kgo.Record{Topic: "t", Key: key}, n)
	}
}

func ofSarama(make sarama.PartitionerConstructor) place {
	return func(key []byte, n int) int {
		chosen, err := make("t").Partition(&sarama.ProducerMessage{Key: sarama.ByteEncoder(key)}, int32(n))
		if err != nil {
			panic(err)
		}
		return int(chosen)
	}
}

func ofSegmentio(balancer segmentio.Balancer) place {
	return func(key []byte, n int) int {
		ids := make([]int, n)
		for i := range ids {
			ids[i] = i
		}
		return balancer.Balance(segmentio.Message{Key: key}, ids...)
	}
}

func fnv1a(key []byte) uint32 {
	hash := fnv.New32a()
	hash.Write(key)
	return hash.Sum32()
}

func main() {
	presets := map[string]place{
		"franz-go":            franz(kgo.StickyKeyPartitioner(nil)),
		"franz-go-sarama":     franz(kgo.StickyKeyPartitioner(kgo.SaramaHasher(fnv1a))),
		"sarama":              ofSarama(sarama.NewHashPartitioner),
		"sarama-reference":    ofSarama(sarama.NewReferenceHashPartitioner),
		"segmentio":           ofSegmentio(&segmentio.Hash{}),
		"segmentio-reference": ofSegmentio(&segmentio.ReferenceHash{}),
		"segmentio-crc32":     ofSegmentio(segmentio.CRC32Balancer{Consistent: true}),
		"segmentio-murmur2":   ofSegmentio(segmentio.Murmur2Balancer{Consistent: true}),
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var asked struct {
			Key        string         `json:"key"`
			Consistent map[string]int `json:"consistent"`
		}
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			panic(err)
		}
		key, err := hex.DecodeString(asked.Key)
		if err != nil {
			panic(err)
		}
		answer := map[string]any{"key": asked.Key}
		for preset, at := range presets {
			placed := map[string]int{}
			for count := range asked.Consistent {
				n, _ := strconv.Atoi(count)
				placed[count] = at(key, n)
			}
			answer[preset] = placed
		}
		line, _ := json.Marshal(answer)
		fmt.Println(string(line))
	}
}

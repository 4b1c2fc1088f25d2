// A member of a group with franz-go's or Sarama's consumer: member CLIENT CONFIG.json
//
// It takes the configuration of a member of the harness (integration/members/config.py) and prints VerifiableConsumer's
// objects, one JSON line each, from which the harness makes its history. SIGTERM makes it leave the group.
//
// Exit codes: 0 after SIGTERM, 1 after an error, which it prints, 2 for wrong arguments.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

type config struct {
	Bootstrap        string   `json:"bootstrap"`
	Group            string   `json:"group"`
	Member           string   `json:"member"`
	Topics           []string `json:"topics"`
	Assignors        []string `json:"assignors"`
	InstanceID       *string  `json:"instance_id"`
	Rack             *string  `json:"rack"`
	SessionTimeoutMs int      `json:"session_timeout_ms"`
	HeartbeatMs      int      `json:"heartbeat_interval_ms"`
	Consumer         struct {
		FetchMaxWaitMs int `json:"fetch_max_wait_ms"`
	} `json:"consumer"`
}

func (c config) session() time.Duration { return time.Duration(c.SessionTimeoutMs) * time.Millisecond }

// fetchWait is short, because a consumer leaves after its fetch has ended.
func (c config) fetchWait() time.Duration {
	if c.Consumer.FetchMaxWaitMs > 0 {
		return time.Duration(c.Consumer.FetchMaxWaitMs) * time.Millisecond
	}
	return 200 * time.Millisecond
}
func (c config) heartbeat() time.Duration { return time.Duration(c.HeartbeatMs) * time.Millisecond }

type partition struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
}

type offset struct {
	partition
	Offset int64 `json:"offset"`
}

var printing sync.Mutex

// say prints one whole line before the member goes on.
func say(name string, fields map[string]any) {
	printing.Lock()
	defer printing.Unlock()
	line := map[string]any{"name": name, "timestamp": time.Now().UnixMilli()}
	for field, value := range fields {
		line[field] = value
	}
	bytes, err := json.Marshal(line)
	if err != nil {
		panic(err)
	}
	fmt.Printf("%s\n", bytes)
}

func sayPartitions(name string, topics map[string][]int32) {
	rows := []partition{}
	for topic, ids := range topics {
		for _, id := range ids {
			rows = append(rows, partition{topic, id})
		}
	}
	say(name, map[string]any{"partitions": rows})
}

func sayRecord(topic string, id int32, at int64, key, value []byte) {
	say("record_data", map[string]any{
		"topic": topic, "partition": id, "offset": at, "key": text(key), "value": text(value),
	})
}

func text(data []byte) any {
	if data == nil {
		return nil
	}
	return string(data)
}

func main() {
	clients := map[string]func(context.Context, config) error{"franz-go": franz, "sarama": viaSarama}
	if len(os.Args) != 3 || clients[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: member franz-go|sarama CONFIG.json")
		os.Exit(2)
	}
	var given config
	data, err := os.ReadFile(os.Args[2])
	if err == nil {
		err = json.Unmarshal(data, &given)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := clients[os.Args[1]](ctx, given); err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
	say("shutdown_complete", nil)
}

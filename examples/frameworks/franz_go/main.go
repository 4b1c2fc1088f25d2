// Command franz_go is a service on franz-go: the loop of its documentation, at its defaults.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	stopping, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	client, err := kgo.NewClient(
		kgo.SeedBrokers(os.Getenv("BROKER")), kgo.ConsumerGroup(os.Getenv("GROUP")), kgo.ConsumeTopics(os.Getenv("TOPIC")),
	)
	if err != nil {
		panic(err)
	}
	for stopping.Err() == nil {
		fetches := client.PollFetches(stopping)
		fetches.EachRecord(func(record *kgo.Record) { // one output for each order
			output := &kgo.Record{Topic: os.Getenv("OUTPUT"), Value: record.Value}
			client.Produce(context.Background(), output, func(_ *kgo.Record, err error) {
				if err != nil {
					fmt.Println("record had a produce error:", err)
				}
			})
		})
	}
	client.Flush(context.Background())
	client.Close()
}

package main

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
)

var balancers = map[string]func() kgo.GroupBalancer{
	"range":              kgo.RangeBalancer,
	"roundrobin":         kgo.RoundRobinBalancer,
	"sticky":             kgo.StickyBalancer,
	"cooperative-sticky": kgo.CooperativeStickyBalancer,
}

// franz runs a member of franz-go until the context ends. Rebalances wait while a batch is committed.
func franz(ctx context.Context, c config) error {
	var chosen []kgo.GroupBalancer
	for _, name := range c.Assignors {
		if balancers[name] == nil {
			return fmt.Errorf("franz-go has no assignor %q", name)
		}
		chosen = append(chosen, balancers[name]())
	}
	tell := func(name string) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, topics map[string][]int32) {
			if name == "partitions_assigned" || len(topics) > 0 {
				sayPartitions(name, topics)
			}
		}
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(c.Bootstrap), kgo.ClientID(c.Member), kgo.ConsumerGroup(c.Group), kgo.ConsumeTopics(c.Topics...),
		kgo.Balancers(chosen...), kgo.SessionTimeout(c.session()), kgo.HeartbeatInterval(c.heartbeat()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(),
		kgo.FetchMaxWait(c.fetchWait()),
		kgo.OnPartitionsAssigned(tell("partitions_assigned")), kgo.OnPartitionsRevoked(tell("partitions_revoked")),
		kgo.OnPartitionsLost(tell("partitions_lost")),
	}
	if c.InstanceID != nil {
		options = append(options, kgo.InstanceID(*c.InstanceID))
	}
	if c.Rack != nil {
		options = append(options, kgo.Rack(*c.Rack))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	say("startup_complete", nil)
	for ctx.Err() == nil {
		fetched := client.PollFetches(ctx)
		commit(client, fetched.Records())
		client.AllowRebalance()
	}
	client.Close() // leaves the group, and tells of the revoked partitions first
	return nil
}

func commit(client *kgo.Client, records []*kgo.Record) {
	if len(records) == 0 {
		return
	}
	ends := map[partition]int64{}
	for _, record := range records {
		sayRecord(record.Topic, record.Partition, record.Offset, record.Key, record.Value)
		ends[partition{record.Topic, record.Partition}] = record.Offset + 1
	}
	say("records_consumed", map[string]any{"count": len(records), "partitions": []partition{}})
	rows := []offset{}
	for at, end := range ends {
		rows = append(rows, offset{at, end})
	}
	done := map[string]any{"offsets": rows, "success": true}
	if err := client.CommitRecords(context.Background(), records...); err != nil {
		done["success"], done["error"] = false, err.Error()
	}
	say("offsets_committed", done)
}

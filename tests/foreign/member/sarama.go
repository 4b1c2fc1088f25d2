package main

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

var strategies = map[string]func() sarama.BalanceStrategy{
	"range":              sarama.NewBalanceStrategyRange,
	"roundrobin":         sarama.NewBalanceStrategyRoundRobin,
	"sticky":             sarama.NewBalanceStrategySticky,
	"cooperative-sticky": sarama.NewBalanceStrategyCooperativeSticky,
}

// handler tells of claims. Sarama commits marked offsets itself and doesn't tell how commits end, so they aren't printed.
type handler struct {
	lock sync.Mutex
	held map[partition]bool
}

func (h *handler) Setup(session sarama.ConsumerGroupSession) error {
	claims := session.Claims()
	h.adopt(claims, true)
	// A cooperative session goes on over generations. Each of them brings a new map of claims, and nothing else tells of
	// it: the number of the generation changes before the claims do.
	go func() {
		for session.Context().Err() == nil {
			time.Sleep(2 * time.Millisecond)
			if now := session.Claims(); reflect.ValueOf(now).Pointer() != reflect.ValueOf(claims).Pointer() {
				claims = now
				h.adopt(claims, true)
			}
		}
	}()
	return nil
}

// adopt tells of the partitions that a generation added; if there are none, it tells of the generation alone, if asked.
func (h *handler) adopt(claims map[string][]int32, always bool) {
	h.lock.Lock()
	defer h.lock.Unlock()
	added := map[string][]int32{}
	for topic, ids := range claims {
		for _, id := range ids {
			if at := (partition{topic, id}); !h.held[at] {
				h.held[at] = true
				added[topic] = append(added[topic], id)
			}
		}
	}
	if always || len(added) > 0 {
		sayPartitions("partitions_assigned", added)
	}
}

func (h *handler) Cleanup(sarama.ConsumerGroupSession) error {
	h.lock.Lock()
	defer h.lock.Unlock()
	h.drop(h.held)
	return nil
}

func (h *handler) drop(gone map[partition]bool) {
	rows := map[string][]int32{}
	for at := range gone {
		rows[at.Topic] = append(rows[at.Topic], at.Partition)
	}
	for at := range gone {
		delete(h.held, at)
	}
	if len(rows) > 0 {
		sayPartitions("partitions_revoked", rows)
	}
}

func (h *handler) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	h.adopt(session.Claims(), false) // before its first record
	for record := range claim.Messages() {
		sayRecord(record.Topic, record.Partition, record.Offset, record.Key, record.Value)
		say("records_taken", map[string]any{"count": 1})
		session.MarkMessage(record, "")
	}
	if session.Context().Err() == nil { // revoked alone: Sarama joins again after this returns
		h.lock.Lock()
		defer h.lock.Unlock()
		h.drop(map[partition]bool{{claim.Topic(), claim.Partition()}: true})
	}
	return nil
}

// viaSarama runs a member of Sarama until the context ends.
func viaSarama(ctx context.Context, c config) error {
	settings := sarama.NewConfig()
	settings.ClientID, settings.Version = c.Member, sarama.V3_6_0_0
	group := &settings.Consumer.Group
	group.Rebalance.GroupStrategies = nil // else range is offered, too
	for _, name := range c.Assignors {
		if strategies[name] == nil {
			return fmt.Errorf("Sarama has no assignor %q", name)
		}
		group.Rebalance.GroupStrategies = append(group.Rebalance.GroupStrategies, strategies[name]())
	}
	group.Session.Timeout, group.Heartbeat.Interval = c.session(), c.heartbeat()
	group.Rebalance.Retry.Max, group.Rebalance.Retry.Backoff = 20, 100*time.Millisecond
	settings.Consumer.Offsets.Initial = sarama.OffsetOldest
	settings.Consumer.Offsets.AutoCommit.Interval = 100 * time.Millisecond
	settings.Consumer.MaxWaitTime = 200 * time.Millisecond
	if c.InstanceID != nil {
		group.InstanceId = *c.InstanceID
	}
	if c.Rack != nil {
		settings.RackID = *c.Rack
	}
	consumer, err := sarama.NewConsumerGroup([]string{c.Bootstrap}, c.Group, settings)
	if err != nil {
		return err
	}
	say("startup_complete", nil)
	told := &handler{held: map[partition]bool{}}
	for ctx.Err() == nil {
		if err := consumer.Consume(ctx, c.Topics, told); errors.Is(err, sarama.ErrClosedConsumerGroup) {
			break
		} else if err != nil {
			fmt.Println("error:", err)
			time.Sleep(100 * time.Millisecond)
		}
	}
	return consumer.Close()
}

// Command leader does what a leader of franz-go does in a join, timed: decode every member's subscription, balance,
// encode every member's assignment. It is the public API of kgo; the balancer behind it is internal to franz-go.
//
// Arguments: assignor name, case file, file for the first answer, limit of a call and budget in seconds. The files are
// those of benchmarks/peers.py. It prints one JSON line.
package main

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

type said struct {
	CPU  []float64 `json:"cpu_ms"`
	Wall []float64 `json:"wall_ms"`
}

func main() {
	var balancer kgo.GroupBalancer
	switch os.Args[1] {
	case "sticky":
		balancer = kgo.StickyBalancer()
	case "cooperative-sticky":
		balancer = kgo.CooperativeStickyBalancer()
	case "range":
		balancer = kgo.RangeBalancer()
	case "roundrobin":
		balancer = kgo.RoundRobinBalancer()
	default:
		panic(os.Args[1])
	}
	limit, err := strconv.ParseFloat(os.Args[4], 64)
	check(err)
	budget, err := strconv.ParseFloat(os.Args[5], 64)
	check(err)
	topics, members := read(os.Args[2])

	var out said
	for spent := 0.0; len(out.CPU) == 0 || spent < budget; {
		runtime.GC()
		watch := time.AfterFunc(time.Duration(limit*float64(time.Second)), func() {
			fmt.Printf("{\"error\": \"no result in %.0f s\"}\n", limit)
			os.Exit(0)
		})
		beganCPU, began := cpu(), time.Now()
		answer := lead(balancer, topics, members)
		wall := time.Since(began)
		used := cpu() - beganCPU
		watch.Stop()
		if len(out.CPU) == 0 {
			write(os.Args[3], answer)
		}
		out.CPU = append(out.CPU, used)
		out.Wall = append(out.Wall, float64(wall.Nanoseconds())/1e6)
		spent += wall.Seconds()
	}
	check(json.NewEncoder(os.Stdout).Encode(out))
}

func lead(
	balancer kgo.GroupBalancer, topics map[string]int32, members []kmsg.JoinGroupResponseMember,
) []kmsg.SyncGroupRequestGroupAssignment {
	group, _, err := balancer.MemberBalancer(members)
	check(err)
	plan, err := group.(kgo.GroupMemberBalancerOrError).BalanceOrError(topics)
	check(err)
	return plan.IntoSyncAssignment()
}

// cpu is that of the whole process in milliseconds, the garbage collector's included.
func cpu() float64 {
	var usage syscall.Rusage
	check(syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e6
}

func read(file string) (map[string]int32, []kmsg.JoinGroupResponseMember) {
	f, err := os.Open(file)
	check(err)
	defer f.Close()
	in := bufio.NewReader(f)
	number(in) // racks: franz-go balances by the leader's rack only where the client asks for it
	number(in)
	topics := map[string]int32{}
	for left := number(in); left > 0; left-- {
		topic := text(in)
		topics[topic] = number(in)
	}
	var members []kmsg.JoinGroupResponseMember
	for left := number(in); left > 0; left-- {
		member := kmsg.NewJoinGroupResponseMember()
		member.MemberID = text(in)
		member.ProtocolMetadata = take(in, int(number(in)))
		members = append(members, member)
	}
	return topics, members
}

func write(file string, answer []kmsg.SyncGroupRequestGroupAssignment) {
	f, err := os.Create(file)
	check(err)
	out := bufio.NewWriter(f)
	check(binary.Write(out, binary.BigEndian, int32(len(answer))))
	for _, given := range answer {
		check(binary.Write(out, binary.BigEndian, int16(len(given.MemberID))))
		_, err = out.WriteString(given.MemberID)
		check(err)
		check(binary.Write(out, binary.BigEndian, int32(len(given.MemberAssignment))))
		_, err = out.Write(given.MemberAssignment)
		check(err)
	}
	check(out.Flush())
	check(f.Close())
}

func number(in io.Reader) int32 { return int32(binary.BigEndian.Uint32(take(in, 4))) }

func text(in io.Reader) string { return string(take(in, int(binary.BigEndian.Uint16(take(in, 2))))) }

func take(in io.Reader, size int) []byte {
	data := make([]byte, size)
	_, err := io.ReadFull(in, data)
	check(err)
	return data
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

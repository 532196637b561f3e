package clients

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/aisb-dev/aisb/tests/fakes"
)

// grpcName is the name under which the test's binary is a client of grpc-go.
// Such a client takes its proxy from the environment, once a process.
const grpcName = "clients-grpc"

// echoService sends back what comes, one message or a stream of them. It is
// written by hand, since its messages are of the library.
func echoService() *grpc.ServiceDesc {
	one := func(_ any, _ context.Context, dec func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		m := new(wrapperspb.BytesValue)
		return m, dec(m)
	}
	many := func(_ any, s grpc.ServerStream) error {
		for {
			m := new(wrapperspb.BytesValue)
			if err := s.RecvMsg(m); errors.Is(err, io.EOF) {
				return nil
			} else if err != nil {
				return err
			}
			if err := s.SendMsg(m); err != nil {
				return err
			}
		}
	}
	return &grpc.ServiceDesc{
		ServiceName: "test.Echo", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "One", Handler: one}},
		Streams: []grpc.StreamDesc{{StreamName: "Many", Handler: many, ServerStreams: true, ClientStreams: true}},
	}
}

func serveGRPC(t *testing.T, ln net.Listener, ca *fakes.CA) {
	s := grpc.NewServer(grpc.Creds(credentials.NewTLS(ca.Config())))
	s.RegisterService(echoService(), struct{}{})
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	t.Cleanup(func() {
		s.Stop()
		if err := <-served; err != nil {
			t.Errorf("grpc: %v", err)
		}
	})
}

// grpcClient calls the service at args[0] and prints a hash of what came back.
func grpcClient(args []string) int {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := callGRPC(ctx, args[0]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func callGRPC(ctx context.Context, target string) error {
	conn, err := grpc.NewClient(target, grpc.WithTransportCredentials(credentials.NewTLS(nil)))
	if err != nil {
		return err
	}
	defer conn.Close()
	reply := new(wrapperspb.BytesValue)
	if err := conn.Invoke(ctx, "/test.Echo/One", wrapperspb.Bytes(pattern(1_000_000)), reply); err != nil {
		return err
	}
	fmt.Printf("%x\n", sha256.Sum256(reply.Value))
	s, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, "/test.Echo/Many")
	if err != nil {
		return err
	}
	sum := sha256.New()
	for range 10 { // each answer before the next message: nothing may be held back
		if err := s.SendMsg(wrapperspb.Bytes(pattern(1000))); err != nil {
			return err
		}
		if err := s.RecvMsg(reply); err != nil {
			return err
		}
		sum.Write(reply.Value)
	}
	if err := s.CloseSend(); err != nil {
		return err
	}
	if err := s.RecvMsg(reply); !errors.Is(err, io.EOF) {
		return fmt.Errorf("after the stream's end: %w", err)
	}
	fmt.Printf("%x\n", sum.Sum(nil))
	return nil
}

// Program interop has both ends of the interoperability tests of gRPC
// (https://github.com/grpc/grpc/blob/master/doc/interop-test-descriptions.md), as gRPC's
// own implementation for Go has them:
//
//	interop serve [CERT KEY]    a server on a free port of loopback, which it prints
//	interop call ADDRESS [CA]   every case against a server, whose names it prints
package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/interop"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
)

func main() {
	var err error
	switch args := os.Args[1:]; {
	case len(args) > 0 && args[0] == "serve":
		err = serve(args[1:])
	case len(args) > 1 && args[0] == "call":
		err = call(args[1], args[2:])
	default:
		err = fmt.Errorf("usage: interop serve [CERT KEY], or interop call ADDRESS [CA]")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(files []string) error {
	var options []grpc.ServerOption
	if len(files) == 2 {
		secure, err := credentials.NewServerTLSFromFile(files[0], files[1])
		if err != nil {
			return err
		}
		options = append(options, grpc.Creds(secure))
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := grpc.NewServer(options...)
	testgrpc.RegisterTestServiceServer(server, interop.NewTestServer())
	fmt.Println("listening", listener.Addr())
	return server.Serve(listener)
}

// call ends the program at the first case that fails: so do gRPC's own.
func call(address string, ca []string) error {
	secure := insecure.NewCredentials()
	if len(ca) == 1 {
		var err error
		if secure, err = credentials.NewClientTLSFromFile(ca[0], ""); err != nil {
			return err
		}
	}
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(secure))
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client := testgrpc.NewTestServiceClient(conn)
	for _, c := range cases {
		c.run(ctx, client)
		fmt.Println("passed", c.name)
	}
	interop.DoUnimplementedMethod(ctx, conn)
	fmt.Println("passed unimplemented_method")
	interop.DoUnimplementedService(ctx, testgrpc.NewUnimplementedServiceClient(conn))
	fmt.Println("passed unimplemented_service")
	return nil
}

var cases = []struct {
	name string
	run  func(context.Context, testgrpc.TestServiceClient, ...grpc.CallOption)
}{
	{"empty_unary", interop.DoEmptyUnaryCall},
	{"large_unary", interop.DoLargeUnaryCall},
	{"client_streaming", interop.DoClientStreaming},
	{"server_streaming", interop.DoServerStreaming},
	{"ping_pong", interop.DoPingPong},
	{"empty_stream", interop.DoEmptyStream},
	{"timeout_on_sleeping_server", interop.DoTimeoutOnSleepingServer},
	{"cancel_after_begin", interop.DoCancelAfterBegin},
	{"cancel_after_first_response", interop.DoCancelAfterFirstResponse},
	{"status_code_and_message", interop.DoStatusCodeAndMessage},
	{"special_status_message", interop.DoSpecialStatusMessage},
	{"custom_metadata", interop.DoCustomMetadata},
}

// The walk-through's calls with the client that openapi-generator makes for Go.
//
// usage: walk URL
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"reflect"
	"sort"

	"walk/client"
)

var background = context.Background()

func as(user string) *client.APIClient {
	configuration := client.NewConfiguration()
	configuration.Servers = client.ServerConfigurations{{URL: os.Args[1]}}
	configuration.AddDefaultHeader("X-User-Id", user)
	return client.NewAPIClient(configuration)
}

func same(found, expected any) {
	if !reflect.DeepEqual(found, expected) {
		panic(fmt.Sprintf("%v is not %v", found, expected))
	}
}

// got returns an answer, and ends the program if there is none.
func got[T any](answer *T, _ *http.Response, err error) *T {
	if err != nil {
		panic(err)
	}
	return answer
}

func send(user, key string, total, count int64) client.ApiSendPacketRequest {
	request := client.NewSendRequest(client.EQUAL, total, count)
	return as(user).PacketsAPI.SendPacket(background).IdempotencyKey(key).SendRequest(*request)
}

// grab returns the amount that a winner got, or else the outcome.
func grab(user, packet string) any {
	switch result := got(as(user).PacketsAPI.GrabPacket(background, packet).GrabRequest(*client.NewGrabRequest()).Execute()).GetActualInstance().(type) {
	case *client.Grabbed:
		return result.Amount
	case *client.SoldOut:
		return result.Outcome
	default:
		return fmt.Sprintf("%T", result)
	}
}

func main() {
	wallets := as("alice").WalletsAPI
	same(got(wallets.Deposit(background, "alice", "walk-1").MovementRequest(*client.NewMovementRequest(1000)).Execute()).Balance, int64(1000))
	same(got(wallets.Deposit(background, "rich", "walk-1").MovementRequest(*client.NewMovementRequest(3_000_000_000)).Execute()).Balance, int64(3_000_000_000))
	packet := got(send("alice", "walk-1", 600, 3).Execute()).PacketId
	same(got(send("alice", "walk-1", 600, 3).Execute()).PacketId, packet)
	for _, user := range []string{"bob", "carol", "dave", "bob"} {
		same(grab(user, packet), int64(200))
	}
	same(grab("eve", packet), "sold_out")
	seen := got(as("bob").PacketsAPI.GetPacket(background, packet).Execute())
	same([]any{seen.Status, seen.GetMine().Amount, seen.GetBest().Amount}, []any{"sold_out", int64(200), int64(200)})
	claims := func(cursor string) *client.PacketClaims {
		request := as("alice").PacketsAPI.ListPacketClaims(background, packet).Limit(2)
		if cursor != "" {
			request = request.Cursor(cursor)
		}
		return got(request.Execute())
	}
	first := claims("")
	rest := claims(first.GetNextCursor())
	users := []string{}
	for _, claim := range append(first.Claims, rest.Claims...) {
		users = append(users, claim.UserId)
	}
	same([]any{users, rest.GetNextCursor()}, []any{[]string{"bob", "carol", "dave"}, ""})
	kinds := []string{}
	for _, movement := range got(wallets.ListMovements(background, "alice").Execute()).Movements {
		kinds = append(kinds, fmt.Sprintf("%T", movement.GetActualInstance()))
	}
	sort.Strings(kinds)
	same(kinds, []string{"*client.DepositMovement", "*client.SentMovement"})
	_, refused, err := send("alice", "walk-2", 500, 1).Execute()
	if err == nil {
		panic("alice has 400")
	}
	problem := err.(*client.GenericOpenAPIError).Model().(client.Problem)
	same([]any{refused.StatusCode, problem.Code}, []any{402, "insufficient-balance"})
	fmt.Println("the walk-through works")
}

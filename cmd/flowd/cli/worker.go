//go:build !no_nats && (!slim || nats)

package cli

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/network/tlsconf"
	"github.com/flowd-io/flowd/internal/operations/headroom"
	"github.com/flowd-io/flowd/internal/pool/wire"
	"github.com/flowd-io/flowd/internal/pool/worker"
	"github.com/flowd-io/flowd/schema"
	"github.com/spf13/cobra"
)

// joining holds the flags with which a command reaches hubs.
type joining struct {
	join        []string
	tokenFile   string
	credentials string
	ca          string
	cert, key   string
}

func (j *joining) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVar(&j.join, "join", []string{"127.0.0.1:" + wire.Port},
		"`ADDRESS` of a hub (service.cluster.listen) or a NATS server (nats://…, tls://…); may be repeated")
	f.StringVar(&j.tokenFile, "token-file", "", "`FILE` with the token, instead of the variable FLOWD_TOKEN")
	f.StringVar(&j.credentials, "credentials", "", "`FILE` with NATS credentials")
	f.StringVar(&j.ca, "ca", "", "PEM `FILE` of the certificates to trust instead of the system's; requires TLS")
	f.StringVar(&j.cert, "cert", "", "PEM `FILE` of the certificate to present")
	f.StringVar(&j.key, "key", "", "PEM `FILE` of its private key")
}

// targets returns the hubs, with the secrets to mask.
func (j *joining) targets() ([]wire.Target, error) {
	t := wire.Target{Token: os.Getenv("FLOWD_TOKEN"), Credentials: j.credentials}
	if j.tokenFile != "" {
		text, err := os.ReadFile(j.tokenFile)
		if err != nil {
			return nil, usage(err.Error())
		}
		t.Token = string(bytes.TrimSpace(text))
	}
	if j.ca+j.cert+j.key != "" {
		var err error
		if t.TLS, err = tlsconf.OfFlags(j.ca, j.cert, j.key); err != nil {
			return nil, usage(err.Error())
		}
	}
	var all []wire.Target
	for _, url := range j.join {
		if t.URL = url; url == "" {
			return nil, usage("--join is empty (give HOST:" + wire.Port + ")")
		}
		all = append(all, t)
	}
	return all, nil
}

// newWorker returns the command that runs steps for pools of other processes.
func newWorker() *cobra.Command {
	var to joining
	var allow, plugins []string
	c := worker.Config{}
	var flags logFlags
	cmd := &cobra.Command{
		Use:   "worker --join ADDRESS --pool NAME",
		Short: "Run the steps of pools for flowd processes elsewhere",
		Long: `Worker joins pools: "pool" steps with workers: remote, of a flowd that runs with
service.cluster set. It gets the steps from there, needs no file of its own, and
reconnects whenever it loses that flowd. Each of its slots does one job at a time.

The token is in the variable FLOWD_TOKEN or in --token-file, never an argument.
Anyone who has it can make this worker run any step that --allow permits, such as
exec: if you do not trust the hub, name only the types that the pool needs.

On a signal it takes no more jobs, finishes those it has, and hands back what is left
after --grace, or at a second signal.`,
		Example: `  flowd worker --join hub:5019 --pool embed --slots 4
  flowd worker --join hub:5019 --pool embed --allow http,set --slots 50`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if c.Join, err = to.targets(); err != nil {
				return err
			}
			if c.Slots < 1 {
				return usage("--slots must be at least 1")
			}
			for _, name := range c.Pools {
				if !wire.GoodName(name) {
					return usage(fmt.Sprintf("%q is not a valid pool name (use letters, digits, _ and -)", name))
				}
			}
			if slices.Sort(c.Pools); len(slices.Compact(slices.Clone(c.Pools))) < len(c.Pools) {
				return usage("--pool names a pool twice (raise --slots for more jobs at a time)")
			}
			if len(c.Pools) == 0 {
				return usage("no pool to join is given (add --pool NAME)")
			}
			if err := usePlugins(cmd, plugins); err != nil {
				return err
			}
			if len(allow) > 0 {
				if err := engine.Processors.Only(allow,
					"this worker was started with --allow and without this type"); err != nil {
					return usage("--allow: " + err.Error())
				}
			}
			headroom.Set(usualInFlight) // of jobs
			con := newConsole(cmd.ErrOrStderr())
			c.Secrets = &schema.Secrets{}
			for _, t := range c.Join {
				c.Secrets.Add(t.Token)
				c.Secrets.AddURL(t.URL)
			}
			logs := newLogging(con, c.Secrets, flags)
			logs.libraries(c.Secrets)
			defer logs.sums.Flush()
			c.Log = logs.log
			stop, kill, release := signals(cmd.Context(), con)
			defer release()
			return worker.Run(stop, kill, c)
		},
	}
	to.flags(cmd)
	flags.add(cmd)
	addPlugins(cmd, &plugins)
	f := cmd.Flags()
	f.StringArrayVar(&c.Pools, "pool", nil, "`NAME` of the pool to join; may be repeated")
	f.IntVar(&c.Slots, "slots", runtime.GOMAXPROCS(0), "jobs of each pool at a time")
	f.StringSliceVar(&allow, "allow", nil, "`TYPES` of steps that may run here, separated by commas; all by default")
	f.DurationVar(&c.Grace, "grace", 25*time.Second, "time that jobs have to finish when the worker stops")
	return cmd
}

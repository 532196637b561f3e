package main

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/aisb-dev/aisb/image"
)

// imageOptions are the flags that say which image, and how it is built.
type imageOptions struct {
	harness  string
	base     string
	packages []string
	commands []string
	network  string

	pull, fresh, verbose bool
}

// flags adds those that name the image.
func (o *imageOptions) flags(f *pflag.FlagSet) {
	f.SortFlags = false
	f.StringVar(&o.harness, "harness", "pi", "harness `NAME` of the image, pi if none is given:\n"+strings.Join(image.HarnessNames(), ", "))
	f.Lookup("harness").DefValue = "" // said by the text
	f.StringVar(&o.base, "base-image", image.DefaultBase, "Debian-like base `REF`")
	listVar(f, &o.packages, "package", "add the Debian package `NAME` (repeatable)")
	f.StringArrayVar(&o.commands, "command", nil, "run `CMD` as root in the build (repeatable)")
}

// spec is the image as the flags say, without its base's ID.
func (o imageOptions) spec() (image.Spec, error) {
	h, err := image.FindHarness(o.harness)
	if errors.Is(err, image.ErrUnknownHarness) {
		return image.Spec{}, &exitError{code: exitUsage, err: err,
			hint: "the harnesses are " + strings.Join(image.HarnessNames(), ", ")}
	}
	if err != nil {
		return image.Spec{}, err
	}
	s := image.Spec{Base: cmp.Or(o.base, image.DefaultBase), Harness: h, Packages: o.packages, Commands: o.commands}
	if err := s.Check(); err != nil {
		return image.Spec{}, &exitError{code: exitUsage, err: err, hint: "see 'aisb image build --help'"}
	}
	return s, nil
}

// configured is the image as flags, environment and configuration files say.
func (o *imageOptions) configured(u *ui, f *pflag.FlagSet) (image.Spec, error) {
	settings, err := configure(u, f)
	if err != nil {
		return image.Spec{}, err
	}
	s, err := o.spec()
	return s, settings.blame(err)
}

func newImageCmd(u *ui) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "image",
		Short: "build, list and remove the images of sandboxes",
		Long: `image manages the container images that 'aisb run' starts. 'aisb run' builds one
by itself when it is missing; the tag names everything that went into it.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newContainerfileCmd(u), newBuildCmd(u), newTagCmd(u), newImageLsCmd(u), newImagePruneCmd(u))
	return cmd
}

func newContainerfileCmd(u *ui) *cobra.Command {
	var o imageOptions
	cmd := &cobra.Command{
		Use:   "containerfile",
		Short: "print the Containerfile of the image",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := o.configured(u, cmd.Flags())
			if err != nil {
				return err
			}
			_, err = u.Out.Write(s.Containerfile())
			return err
		},
	}
	o.flags(cmd.Flags())
	return cmd
}

func newBuildCmd(u *ui) *cobra.Command {
	var o imageOptions
	cmd := &cobra.Command{
		Use:   "build",
		Short: "build the image and print its tag",
		Long: `build makes the image that 'aisb run' would start with the same flags, and
prints its tag. The build gets none of the host's environment and no proxy
settings.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := o.configured(u, cmd.Flags())
			if err != nil {
				return err
			}
			b, err := newBuilder(u, cmd.CommandPath(), o)
			if err != nil {
				return err
			}
			tag, err := b.build(cmd.Context(), s)
			if err != nil {
				return err
			}
			fmt.Fprintln(u.Out, tag)
			return nil
		},
	}
	f := cmd.Flags()
	o.flags(f)
	f.StringVar(&o.network, "build-network", "", "podman's `NETWORK` for the build")
	f.BoolVar(&o.pull, "pull", false, "get the base image's newest version first")
	f.BoolVar(&o.fresh, "fresh", false, "build all anew: newest packages and harness")
	f.BoolVarP(&o.verbose, "verbose", "V", false, "show all of podman's output")
	return cmd
}

func newTagCmd(u *ui) *cobra.Command {
	var o imageOptions
	cmd := &cobra.Command{
		Use:   "tag",
		Short: "print the tag of the image, built or not",
		Long: `tag prints the tag of the image that 'aisb run' would start with the same flags,
built or not. It depends on the base image, which podman must have.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := o.configured(u, cmd.Flags())
			if err != nil {
				return err
			}
			b, err := newBuilder(u, cmd.CommandPath(), o)
			if err != nil {
				return err
			}
			if known, ok, err := b.records.Find(s); err != nil {
				return newerError(err, buildAnew)
			} else if ok {
				fmt.Fprintln(u.Out, known.Tag())
				return nil
			}
			if s.BaseID, err = b.id(cmd.Context(), s.Base); err != nil {
				return &exitError{code: 1, err: err, hint: "the tag depends on the base image: 'aisb image build' gets it"}
			}
			fmt.Fprintln(u.Out, s.Tag())
			return nil
		},
	}
	o.flags(cmd.Flags())
	return cmd
}

func newImageLsCmd(u *ui) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "list the images of aisb",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, err := newBuilder(u, cmd.CommandPath(), imageOptions{})
			if err != nil {
				return err
			}
			list, err := b.list(cmd.Context())
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(u.Out, list)
			}
			w := tabwriter.NewWriter(u.Out, 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "IMAGE\tHARNESS\tBASE\tCREATED\tSIZE")
			for _, i := range list {
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", printable(i.Ref), printable(i.Harness), printable(i.Base),
					i.Created.Local().Format(time.DateTime), size(i.Size))
			}
			return w.Flush()
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func newImagePruneCmd(u *ui) *cobra.Command {
	var all bool
	unused := 30 * day
	cmd := &cobra.Command{
		Use:        "prune",
		Short:      "remove images long unused, and left-over layers",
		SuggestFor: []string{"rm", "rmi", "remove", "delete", "clean"},
		Long: `prune removes the images of aisb that no run has used for some time or that no
build of this aisb would make again, and the layers that builds left. It prints
the images that it removed.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, err := newBuilder(u, cmd.CommandPath(), imageOptions{})
			if err != nil {
				return err
			}
			return b.prune(cmd.Context(), all, time.Now().Add(-unused))
		},
	}
	f := cmd.Flags()
	f.BoolVar(&all, "all", false, "remove all images of aisb")
	f.Var((*timeValue)(&unused), "unused", "remove what was not used for `TIME`, like 7d")
	return cmd
}

// recordsIn is where the records of images lie in aisb's state directory.
func recordsIn(state string) image.Records {
	return image.Records{Dir: filepath.Join(state, "images")}
}

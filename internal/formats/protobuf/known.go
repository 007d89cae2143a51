package protobuf

import (
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	_ "google.golang.org/protobuf/types/known/anypb" // files that any schema may import
	_ "google.golang.org/protobuf/types/known/apipb"
	_ "google.golang.org/protobuf/types/known/durationpb"
	_ "google.golang.org/protobuf/types/known/emptypb"
	_ "google.golang.org/protobuf/types/known/fieldmaskpb"
	_ "google.golang.org/protobuf/types/known/structpb"
	_ "google.golang.org/protobuf/types/known/timestamppb"
	_ "google.golang.org/protobuf/types/known/typepb"
	_ "google.golang.org/protobuf/types/known/wrapperspb"
)

// standard returns a file that is part of Protobuf itself, or nil.
func standard(name string) protoreflect.FileDescriptor {
	if !strings.HasPrefix(name, "google/protobuf/") {
		return nil
	}
	f, err := protoregistry.GlobalFiles.FindFileByPath(name)
	if err != nil {
		return nil
	}
	return f
}

// ambient are files that schemas in registries import without a reference: Confluent's clients include them, and
// Kafka Connect writes such schemas.
var ambient = map[string]string{
	"confluent/meta.proto": `syntax = "proto3"; package confluent; import "google/protobuf/descriptor.proto";
		message Meta { string doc = 1; map<string, string> params = 2; repeated string tags = 3; }
		extend google.protobuf.FileOptions { Meta file_meta = 1088; }
		extend google.protobuf.MessageOptions { Meta message_meta = 1088; }
		extend google.protobuf.FieldOptions { Meta field_meta = 1088; }
		extend google.protobuf.EnumOptions { Meta enum_meta = 1088; }
		extend google.protobuf.EnumValueOptions { Meta enum_value_meta = 1088; }`,
	"confluent/type/decimal.proto":  decimal,
	"confluent/types/decimal.proto": decimal, // the name in some clients
	"google/type/date.proto": `syntax = "proto3"; package google.type;
		message Date { int32 year = 1; int32 month = 2; int32 day = 3; }`,
	"google/type/timeofday.proto": `syntax = "proto3"; package google.type;
		message TimeOfDay { int32 hours = 1; int32 minutes = 2; int32 seconds = 3; int32 nanos = 4; }`,
}

const decimal = `syntax = "proto3"; package confluent.type;
	message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }`

// builtIn reports whether a file can be imported without being provided.
func builtIn(name string) bool { return standard(name) != nil || ambient[name] != "" }

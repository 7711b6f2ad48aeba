# Rules for GNU make: an image as the linker leaves it becomes a stripped image and its sidecar.
#
#   include /usr/share/covsplit/covsplit.mk
#   app.unsplit: main.o more.o
#           $(CC) $(LDFLAGS) -o $@ $^
#   $(eval $(call covsplit_split,app,app.unsplit))
#   clean:
#           rm -f $(COVSPLIT_CLEAN)
#
# The sidecar is app.covsplit. Deleting it, or app, makes it again. An image that comes out as before
# keeps its time, so that nothing is made again that depends on it: app.split is there to know that
# the split was done.
#
# With a store, where sidecars lie under the UUIDs of their images:
#
#   $(eval $(call covsplit_split_to_store,app,app.unsplit,sidecars))
#
# Variables: COVSPLIT, the command; COVSPLIT_OPTIONS, for `covsplit split`. COVSPLIT_CLEAN lists all
# that these rules make, but for what is in stores.

COVSPLIT ?= covsplit
COVSPLIT_OPTIONS ?=
COVSPLIT_CLEAN ?=

# An output that is missing although its stamp is there: made again by a make of its own.
define covsplit_outputs
COVSPLIT_CLEAN += $(1) $(2)
$(1): $(2)
	@test -f $$@ || { rm -f $(2) && $$(MAKE) --no-print-directory $(2); }
endef

# $(call covsplit_split,OUT,IN)
define covsplit_split
$(1).split: $(2)
	$$(COVSPLIT) split $$(COVSPLIT_OPTIONS) --sidecar $(1).covsplit -o $(1) $(2)
	@touch $$@
$(call covsplit_outputs,$(1) $(1).covsplit,$(1).split)
endef

# $(call covsplit_split_to_store,OUT,IN,STORE)
define covsplit_split_to_store
$(1).split: $(2)
	$$(COVSPLIT) split $$(COVSPLIT_OPTIONS) --store $(3) -o $(1) $(2)
	@touch $$@
$(call covsplit_outputs,$(1),$(1).split)
endef

# A node pool of machines that hold data, on GKE. Its labels and taint are those of docs/how-to/clouds.md; the disks are mounted by
# local-disk.yaml, below /mnt/disks: nothing else can be written on Container-Optimized OS.

variable "cluster" {
  description = "The id of a google_container_cluster."
  type        = string
}

variable "zones" {
  description = "With topologyKey replicas of a bucket are in different zones."
  type        = list(string)
}

resource "google_container_node_pool" "colocation_data" {
  name           = "colocation-data"
  cluster        = var.cluster
  node_locations = var.zones

  # In each zone. In all at least one more than replicas, for repairs. Before you take some away: `colocation drain NODE` for each.
  node_count = 2

  node_config {
    machine_type = "n2-standard-8"
    # A spot machine goes with its disk within half a minute.
    spot = false

    labels = {
      "colocation.dev/data" = "true"
    }

    taint {
      key    = "dedicated"
      value  = "colocation"
      effect = "NO_SCHEDULE"
    }

    # Raw disks, which no pod's emptyDir shares.
    local_nvme_ssd_block_config {
      local_ssd_count = 1
    }
  }

  # One machine at a time, after a new one is there. GKE waits an hour for a machine's copies, then takes it.
  upgrade_settings {
    strategy        = "SURGE"
    max_surge       = 1
    max_unavailable = 0
  }

  # A repair makes the machine again, with an empty disk.
  management {
    auto_repair  = true
    auto_upgrade = true
  }
}
